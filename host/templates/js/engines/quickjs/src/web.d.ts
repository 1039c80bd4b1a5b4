/** QuickJS has none of the interfaces of the Web, such as `fetch`. */
export {};

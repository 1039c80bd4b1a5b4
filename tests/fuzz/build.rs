//! Links the coverage callbacks of `src/main.rs` instead of those of libFuzzer, which have the same names and
//! do nothing.

fn main() {
    for name in ["__sanitizer_cov_trace_pc_guard", "__sanitizer_cov_trace_pc_guard_init"] {
        println!("cargo::rustc-link-arg-bins=-Wl,--wrap={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}

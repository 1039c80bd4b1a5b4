package toolyard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Schema is a JSON Schema.
type Schema map[string]any

// SchemaOf returns the schema of a type. The tag "json" names the fields of a struct, where
// omitempty or omitzero makes a field optional. "about" describes a field, and "schema" adds
// members of a JSON Schema, such as {"minimum": 1}.
func SchemaOf[T any]() Schema { return schemaOf(reflect.TypeFor[T]()) }

func schemaOf(kind reflect.Type) Schema {
	switch kind.Kind() {
	case reflect.Pointer:
		return schemaOf(kind.Elem())
	case reflect.Interface:
		return Schema{}
	case reflect.String:
		return Schema{"type": "string"}
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return Schema{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Schema{"type": "integer", "minimum": 0}
	case reflect.Float32, reflect.Float64:
		return Schema{"type": "number"}
	case reflect.Slice, reflect.Array:
		if kind == reflect.TypeFor[json.RawMessage]() {
			return Schema{}
		}
		return Schema{"type": "array", "items": schemaOf(kind.Elem())}
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": schemaOf(kind.Elem())}
	case reflect.Struct:
		return structSchema(kind)
	}
	// This runs while the component is built, so only its author sees it.
	panic(fmt.Sprintf("%s has no JSON Schema", kind))
}

func structSchema(kind reflect.Type) Schema {
	properties, required := Schema{}, []string{}
	for field := range fields(kind) {
		schema := schemaOf(field.Type)
		if about := field.Tag.Get("about"); about != "" {
			schema["description"] = about
		}
		if more := field.Tag.Get("schema"); more != "" {
			if err := json.Unmarshal([]byte(more), &schema); err != nil {
				panic(fmt.Sprintf("the tag schema of %s.%s: %v", kind, field.Name, err))
			}
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		properties[name] = schema
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	return Schema{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// formSchema returns the schema of the struct for a form, without keywords that clients do not
// know.
func formSchema(form any) Schema {
	schema := schemaOf(reflect.TypeOf(form))
	delete(schema, "additionalProperties")
	return schema
}

func fields(kind reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range kind.NumField() {
			field := kind.Field(i)
			if field.IsExported() && field.Tag.Get("json") != "-" && !yield(field) {
				return
			}
		}
	}
}

// marshal writes readable JSON, without the escapes for HTML.
func marshal(value any) (string, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(buffer.String(), "\n"), nil
}

func mustMarshal(value any) string {
	text, err := marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

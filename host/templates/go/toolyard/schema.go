package toolyard

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schema is a JSON Schema.
type Schema map[string]any

// Enum is a type of strings with few values. Its schema lists them.
type Enum interface{ Enum() []string }

// SchemaOf returns the schema of a type, as values of it are in JSON. It serves arguments, results
// and forms in the same way. The fields of a struct have these tags:
//
//	json:"name,omitempty"  the name; omitempty or omitzero makes the field optional
//	title:"…"              a title, which forms show
//	description:"…"        a description for the model, or for the person who fills in a form
//	enum:"a,b"             the values
//	min:"1" max:"9"        bounds of a number, of the length of a text, or of the items of a list
//	schema:"{…}"           other members of a JSON Schema
//
// Fields have the order of the struct.
func SchemaOf[T any]() Schema { return schemaOf(reflect.TypeFor[T](), nil) }

// schemaOf returns the schema of a type inside other types. It panics for types without one: Typed
// tells the author.
func schemaOf(kind reflect.Type, outer []reflect.Type) Schema {
	switch {
	case kind == reflect.TypeFor[time.Time]():
		return Schema{"type": "string", "format": "date-time"}
	case kind == reflect.TypeFor[[]byte]():
		return Schema{"type": "string", "contentEncoding": "base64"}
	case implements[json.Marshaler](kind):
		return Schema{}
	case implements[Enum](kind):
		return Schema{"type": "string", "enum": reflect.New(kind).Interface().(Enum).Enum()}
	case implements[encoding.TextMarshaler](kind):
		return Schema{"type": "string"}
	}
	switch kind.Kind() {
	case reflect.Pointer:
		return schemaOf(kind.Elem(), outer)
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
		return Schema{"type": "array", "items": schemaOf(kind.Elem(), outer)}
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": schemaOf(kind.Elem(), outer)}
	case reflect.Struct:
		if slices.Contains(outer, kind) {
			panic(fmt.Sprintf("%s contains itself, so it has no schema: use json.RawMessage inside", kind))
		}
		return structSchema(kind, append(slices.Clone(outer), kind))
	}
	panic(fmt.Sprintf("%s has no JSON Schema", kind))
}

// implements reports whether a type or a pointer to it implements an interface.
func implements[I any](kind reflect.Type) bool {
	return kind.Kind() != reflect.Pointer && kind.Kind() != reflect.Interface &&
		reflect.PointerTo(kind).Implements(reflect.TypeFor[I]())
}

func structSchema(kind reflect.Type, outer []reflect.Type) Schema {
	properties, required := properties{}, []string{}
	for field := range fields(kind) {
		schema := schemaOf(field.Type, outer)
		if err := describe(schema, field); err != nil {
			panic(fmt.Sprintf("the tags of %s.%s: %v", kind, field.Name, err))
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		properties = append(properties, property{name, schema})
		if !strings.Contains(options, "omit") {
			required = append(required, name)
			if kind, ok := schema["type"].(string); ok && field.Type.Kind() == reflect.Pointer {
				schema["type"] = []string{kind, "null"}
			}
		}
	}
	return Schema{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// describe adds the tags of a field to its schema.
func describe(schema Schema, field reflect.StructField) error {
	for _, tag := range []string{"title", "description"} {
		if text := field.Tag.Get(tag); text != "" {
			schema[tag] = text
		}
	}
	if values := field.Tag.Get("enum"); values != "" {
		of := schema
		if items, ok := schema["items"].(Schema); ok {
			of = items
		}
		if of["type"] != "string" {
			return fmt.Errorf("enum is for texts and lists of texts")
		}
		of["enum"] = strings.Split(values, ",")
	}
	keywords := map[any]string{"integer": "imum", "number": "imum", "string": "Length", "array": "Items"}
	for _, bound := range []string{"min", "max"} {
		text := field.Tag.Get(bound)
		if text == "" {
			continue
		}
		keyword := keywords[schema["type"]]
		if _, err := strconv.ParseFloat(text, 64); err != nil || keyword == "" {
			return fmt.Errorf("%s is a number, for numbers, texts and lists", bound)
		}
		schema[bound+keyword] = json.Number(text) // as in minimum, maxLength and minItems
	}
	if more := field.Tag.Get("schema"); more != "" {
		if err := json.Unmarshal([]byte(more), &schema); err != nil {
			return fmt.Errorf("schema: %w", err)
		}
	}
	return nil
}

// properties are the properties of an object in order, which a map would lose.
type properties []property

type property struct {
	name   string
	schema Schema
}

func (list properties) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, property := range list {
		if i > 0 {
			out.WriteByte(',')
		}
		schema, err := marshal(property.schema)
		if err != nil {
			return nil, err
		}
		out.WriteString(mustMarshal(property.name) + ":" + schema)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// resultSchema returns the schema of structured content, which must be an object: other values are
// the member "result" of one.
func resultSchema(kind reflect.Type) Schema {
	schema := schemaOf(kind, nil)
	switch schema["type"] {
	case "object":
		return schema
	case nil: // such as json.RawMessage; it has to be an object
		schema["type"] = "object"
		return schema
	}
	return Schema{"type": "object", "properties": Schema{"result": schema}, "required": []string{"result"}}
}

// formSchema returns the schema of a form: a pointer to a struct, or to a map whose keys are the
// fields, in alphabetical order.
func formSchema(form any) Schema {
	value := reflect.ValueOf(form)
	for value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	if value.Kind() == reflect.Map {
		names, fields := []string{}, properties{}
		for _, key := range value.MapKeys() {
			names = append(names, key.String())
		}
		slices.Sort(names)
		for _, name := range names {
			fields = append(fields, property{name, schemaOf(value.Type().Elem(), nil)})
		}
		return Schema{"type": "object", "properties": fields, "required": names}
	}
	schema := schemaOf(value.Type(), nil)
	// Clients do not know this keyword in forms.
	delete(schema, "additionalProperties")
	return schema
}

// fields iterates over the fields that encoding/json writes.
func fields(kind reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for field := range allFields(kind) {
			if field.IsExported() && field.Tag.Get("json") != "-" && !yield(field) {
				return
			}
		}
	}
}

// allFields iterates over the fields of a struct, and those of embedded structs in their place.
func allFields(kind reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range kind.NumField() {
			field := kind.Field(i)
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if field.Anonymous && field.Tag.Get("json") == "" && inner.Kind() == reflect.Struct {
				for field := range allFields(inner) {
					if !yield(field) {
						return
					}
				}
			} else if !yield(field) {
				return
			}
		}
	}
}

// withLists returns a copy of a value in which nil slices and maps are empty, because nil is null in
// JSON, which the schema of a list does not allow.
func withLists(value any) any {
	if value == nil {
		return nil
	}
	copied := reflect.New(reflect.TypeOf(value)).Elem()
	copied.Set(reflect.ValueOf(value))
	fillLists(copied)
	return copied.Interface()
}

func fillLists(value reflect.Value) {
	if !value.CanSet() || implements[json.Marshaler](value.Type()) {
		return
	}
	switch value.Kind() {
	case reflect.Slice:
		if value.IsNil() {
			value.Set(reflect.MakeSlice(value.Type(), 0, 0))
		}
		for i := range value.Len() {
			fillLists(value.Index(i))
		}
	case reflect.Map:
		if value.IsNil() {
			value.Set(reflect.MakeMap(value.Type()))
		}
	case reflect.Struct:
		for i := range value.NumField() {
			// omitzero leaves out nil, and no empty list.
			if !strings.Contains(value.Type().Field(i).Tag.Get("json"), ",omit") {
				fillLists(value.Field(i))
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

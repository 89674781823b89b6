package avro

import (
	"encoding/json"
	"fmt"
	"math"
)

type kind uint8

const (
	nullKind kind = iota
	boolKind
	intKind
	longKind
	floatKind
	doubleKind
	bytesKind
	stringKind
	fixedKind
	enumKind
	arrayKind
	mapKind
	recordKind
	unionKind
)

var primitives = map[string]kind{
	"null": nullKind, "boolean": boolKind, "int": intKind, "long": longKind, "float": floatKind, "double": doubleKind,
	"bytes": bytesKind, "string": stringKind,
}

// Type is one node of a writer's schema. A named type that refers to itself makes the graph cyclic.
type Type struct {
	kind     kind
	logical  string
	size     int     // fixed
	elem     *Type   // array items, map values
	fields   []Field // record
	branches []*Type // union
}

// Field is a field of a record.
type Field struct {
	Name string
	ID   int // the Iceberg field id, -1 without one
	Type *Type
}

type schemaParser struct {
	named map[string]*Type
	count int
}

func parseSchema(text []byte) (*Type, error) {
	var raw any
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("the Avro schema is no JSON: %w", err)
	}
	p := schemaParser{named: map[string]*Type{}}
	return p.parse(raw, 0)
}

func (p *schemaParser) parse(raw any, depth int) (*Type, error) {
	if p.count++; p.count > maxFields || depth > maxDepth {
		return nil, fmt.Errorf("the Avro schema is too large")
	}
	switch raw := raw.(type) {
	case string:
		if k, ok := primitives[raw]; ok {
			return &Type{kind: k}, nil
		}
		if t, ok := p.named[raw]; ok {
			return t, nil
		}
		return nil, fmt.Errorf("the Avro schema names an unknown type %.64q", raw)
	case []any:
		t := &Type{kind: unionKind}
		for _, b := range raw {
			branch, err := p.parse(b, depth+1)
			if err != nil {
				return nil, err
			}
			t.branches = append(t.branches, branch)
		}
		return t, nil
	case map[string]any:
		return p.parseObject(raw, depth)
	}
	return nil, fmt.Errorf("the Avro schema holds a %T where a type belongs", raw)
}

func (p *schemaParser) parseObject(raw map[string]any, depth int) (*Type, error) {
	kind, ok := raw["type"].(string)
	if !ok { // {"type": {...}} and {"type": [...]}: the type is one level down
		if raw["type"] == nil {
			return nil, fmt.Errorf("the Avro schema has a type without a kind")
		}
		return p.parse(raw["type"], depth+1)
	}
	t := &Type{}
	t.logical, _ = raw["logicalType"].(string)
	switch kind {
	case "record", "error":
		t.kind = recordKind
		p.name(raw, t)
		fields, _ := raw["fields"].([]any)
		for _, f := range fields {
			m, ok := f.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("the Avro schema has a malformed field")
			}
			name, _ := m["name"].(string)
			id := -1
			if n, ok := m["field-id"].(float64); ok && n >= 0 && n <= math.MaxInt32 {
				id = int(n)
			}
			typ, err := p.parse(m["type"], depth+1)
			if err != nil {
				return nil, err
			}
			t.fields = append(t.fields, Field{Name: name, ID: id, Type: typ})
		}
	case "enum":
		t.kind = enumKind
		p.name(raw, t)
	case "fixed":
		t.kind = fixedKind
		n, _ := raw["size"].(float64)
		if n < 0 || n > 1<<20 {
			return nil, fmt.Errorf("the Avro schema has a fixed type of %v bytes", n)
		}
		t.size = int(n)
		p.name(raw, t)
	case "array", "map":
		t.kind = arrayKind
		inner := raw["items"]
		if kind == "map" {
			t.kind, inner = mapKind, raw["values"]
		}
		elem, err := p.parse(inner, depth+1)
		if err != nil {
			return nil, err
		}
		t.elem = elem
	default:
		inner, err := p.parse(kind, depth+1)
		if err != nil {
			return nil, err
		}
		if inner.kind >= arrayKind || inner.kind == fixedKind || inner.kind == enumKind {
			return inner, nil
		}
		t.kind = inner.kind
	}
	return t, nil
}

func (p *schemaParser) name(raw map[string]any, t *Type) {
	name, _ := raw["name"].(string)
	if ns, _ := raw["namespace"].(string); ns != "" {
		p.named[ns+"."+name] = t
	}
	p.named[name] = t
}

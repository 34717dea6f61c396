package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nodekit-go/nodekit/internal/strictyaml"
)

// Sources says where a configuration comes from: each wins over those before it.
type Sources struct {
	// File is the path of a configuration; empty: none.
	File string
	// DropIns is a directory of more, see LoadFiles; empty: none.
	DropIns string
	// Overrides are single settings, as flags of a command line make them; later ones win.
	Overrides []Override
}

// Override sets one field from elsewhere than a file.
type Override struct {
	// Field is the name of a field, like "authentication.anonymous.enabled".
	Field string
	// Value is the value as encoding/json would encode it into a configuration.
	Value any
	// Source says who sets it, like "--anonymous-auth"; problems name it instead of a file.
	Source string
	// Merge keeps those entries of a map that Value does not name. Without it the value
	// takes the place of what the files say.
	Merge bool
}

// file returns the setting as a configuration of its own.
func (o Override) file() (file, error) {
	value := o.Value
	names := strings.Split(o.Field, ".")
	for _, name := range slices.Backward(names) {
		value = map[string]any{name: value}
	}
	data, err := json.Marshal(value)
	if err != nil {
		return file{}, fmt.Errorf("%s: set %s: %w", o.Source, o.Field, err)
	}
	docs, err := strictyaml.Parse(data)
	if err != nil || len(docs) != 1 {
		return file{}, fmt.Errorf("%s: set %s: %d documents: %w", o.Source, o.Field, len(docs), err)
	}
	return file{path: o.Source, doc: docs[0], override: &o}, nil
}

package strictyaml

import (
	"fmt"
	"strings"
	"testing"
)

// TestParseRefusesWhatGrows parses documents that are small and stand for much.
func TestParseRefusesWhatGrows(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	tests := []struct {
		name, text, want string
	}{
		{name: "a long text repeated", text: "a: &a " + long + "\nb: [" + strings.Repeat("*a,", 10) + "]\n", want: "aliases make more than"},
		{name: "a long key repeated", text: "a: &a {? " + long + " : 1}\nb: [" + strings.Repeat("*a,", 10) + "]\n", want: "aliases make more than"},
		{name: "repeated a little", text: "a: &a " + long + "\nb: [*a, *a]\n"},
		{name: "many values", text: "a: [" + strings.Repeat("1,", maxMarks) + "]", want: "more than 200000 lines and items"},
		{name: "many values in JSON", text: `{"a":[` + strings.Repeat("1,", maxMarks) + "1]}", want: "more than 200000 lines and items"},
		{name: "many lines in two documents", text: strings.Repeat("- 1\n", maxMarks-10) + "---\n" + strings.Repeat("- 1\n", maxMarks-10)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text))
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("Parse: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("Parse: %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestWideMapping looks fields up in mappings that are searched by an index.
func TestWideMapping(t *testing.T) {
	var yaml, json strings.Builder
	json.WriteString("{\n")
	for i := range 500 {
		fmt.Fprintf(&yaml, "f%d: 1\n", i)
		fmt.Fprintf(&json, "\"f%d\": 1,\n", i)
	}
	yaml.WriteString("f7: 2\n")
	json.WriteString("\"f7\": 2\n}\n")
	for name, tt := range map[string]struct {
		text  string
		shift int
	}{"YAML": {yaml.String(), 0}, "JSON": {json.String(), 1}} {
		t.Run(name, func(t *testing.T) {
			docs, err := Parse([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := docs[0].LineOf("f7"), 501+tt.shift; got != want {
				t.Errorf("line of the field set twice is %d, want %d, the one that counts", got, want)
			}
			if got, want := docs[0].LineOf("f400"), 401+tt.shift; got != want {
				t.Errorf("line of a field is %d, want %d", got, want)
			}
			if docs[0].Has("f500") {
				t.Error("there is no f500")
			}
			if n := len(docs[0].Check(&struct{}{})); n != maxIssues {
				t.Errorf("%d issues, want %d", n, maxIssues)
			}
		})
	}
}

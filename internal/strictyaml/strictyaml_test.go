package strictyaml

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// quantity stands for the API types that read their own JSON.
type quantity string

func (q *quantity) UnmarshalJSON(b []byte) error {
	if strings.Contains(string(b), "bad") {
		return errors.New("not a quantity")
	}
	return json.Unmarshal(b, (*string)(q))
}

type meta struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}

type inner struct {
	Image string              `json:"image"`
	Ports []int32             `json:"ports,omitempty"`
	Tty   *bool               `json:"tty,omitempty"`
	Limit map[string]quantity `json:"limit,omitempty"`
}

type object struct {
	meta       `json:",inline"`
	Embedded   `json:",inline"`
	Meta       meta    `json:"metadata"`
	Containers []inner `json:"containers"`
}

type Embedded struct {
	APIVersion string `json:"apiVersion"`
}

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []string // JSON of each document
		line []int
	}{
		{name: "empty", text: ""},
		{name: "blanks and comments", text: "\n# nothing\n---\n# here\n...\n"},
		{name: "one document", text: "a: 1\n", want: []string{`{"a":1}`}, line: []int{1}},
		{name: "leading marker", text: "---\na: 1\n---\n", want: []string{`{"a":1}`}, line: []int{2}},
		{name: "two documents", text: "a: 1\n---\nb: [x]\n", want: []string{`{"a":1}`, `{"b":["x"]}`}, line: []int{1, 3}},
		{name: "text after a marker", text: "--- {a: 1}\n", want: []string{`{"a":1}`}, line: []int{1}},
		{name: "end marker", text: "a: 1\n...\nb: 2\n", want: []string{`{"a":1}`, `{"b":2}`}, line: []int{1, 3}},
		{name: "directive", text: "%YAML 1.1\n---\na: 1\n", want: []string{`{"a":1}`}, line: []int{3}},
		{name: "marker inside a line", text: "a: x --- y\n", want: []string{`{"a":"x --- y"}`}, line: []int{1}},
		{name: "JSON with tabs", text: "{\n\t\"a\": 1\n}\n", want: []string{"{\n\t\"a\": 1\n}"}, line: []int{1}},
		{name: "flow mapping", text: "{a: 1}", want: []string{`{"a":1}`}, line: []int{1}},
		{name: "byte order mark", text: "\ufeffa: 1", want: []string{`{"a":1}`}, line: []int{1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			docs, err := Parse([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			var line []int
			for _, d := range docs {
				got, line = append(got, string(d.JSON())), append(line, d.Line)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("documents (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.line, line); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseNamesTheLineOfASyntaxError(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{name: "bad indentation", text: "a: 1\n b: 2\n", want: "line 2: mapping values are not allowed in this context"},
		{name: "second document", text: "a: 1\n---\nb: 1\n c: 2\n", want: "line 4: mapping values are not allowed in this context"},
		{name: "JSON", text: "{\n  \"a\": 1,\n  \"b\" 2\n}", want: "line 3: invalid character '2' after object key"},
		{name: "separators only, without end", text: strings.Repeat("--- 1\n", maxDocuments+1), want: "line 1000: more than 1000 documents in one file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text))
			syntax, ok := errors.AsType[*SyntaxError](err)
			if !ok {
				t.Fatalf("error %v, want a *SyntaxError", err)
			}
			if diff := cmp.Diff(tt.want, syntax.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []Issue
	}{
		{name: "clean", text: "apiVersion: v1\nmetadata: {name: a, labels: {x: z}}\ncontainers:\n- image: b\n  ports: [80]\n  tty: true\n  limit: {cpu: \"1\"}\n"},
		{name: "null fits everything", text: "metadata:\ncontainers: ~\n"},
		{
			name: "unknown with a hint", text: "metadata: {name: a}\ncontainers:\n- imgae: b\n  zzz: 1\n",
			want: []Issue{
				{Unknown, 3, "containers[0].imgae", `unknown field; did you mean "image"?`},
				{Unknown, 4, "containers[0].zzz", "unknown field"},
			},
		},
		{
			name: "names differ by case", text: "Metadata: {name: a}\n",
			want: []Issue{{Unknown, 1, "Metadata", `unknown field; did you mean "metadata"?`}},
		},
		{
			name: "duplicate", text: "metadata:\n  name: a\n  labels: {}\n  name: b\n",
			want: []Issue{{Duplicate, 4, "metadata.name", "set twice, first on line 2; the last one counts"}},
		},
		{
			name: "duplicate in JSON", text: "{\"metadata\": {\"name\": \"a\",\n\"name\": \"b\"}}",
			want: []Issue{{Duplicate, 2, "metadata.name", "set twice, first on line 1; the last one counts"}},
		},
		{name: "tags", text: "metadata: !!map {name: !!str 1}\ncontainers: !list [!one {image: b}]\n"},
		{name: "merge keys may repeat", text: "metadata: &m {name: a}\ncontainers:\n- <<: {image: x}\n  image: b\n"},
		{
			name: "every wrong type", text: "metadata: []\ncontainers:\n- image: 1\n  ports: [x, 99999999999]\n  tty: maybe\n  limit: {cpu: bad}\n- 7\n",
			want: []Issue{
				{WrongType, 1, "metadata", "is a list, must be a mapping"},
				{WrongType, 3, "containers[0].image", "is read as 1, must be a string; write it in quotes"},
				{WrongType, 4, "containers[0].ports[0]", `is "x", must be a whole number of 32 bits`},
				{WrongType, 4, "containers[0].ports[1]", "is 99999999999, must be a whole number of 32 bits"},
				{WrongType, 5, "containers[0].tty", `is "maybe", must be true or false`},
				{WrongType, 6, "containers[0].limit[cpu]", "not a quantity"},
				{WrongType, 7, "containers[1]", "is a single value, must be a mapping"},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			docs, err := Parse([]byte(tt.text))
			if err != nil || len(docs) != 1 {
				t.Fatalf("%d documents, error %v", len(docs), err)
			}
			if diff := cmp.Diff(tt.want, docs[0].Check(&object{})); diff != "" {
				t.Errorf("issues (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLineOf(t *testing.T) {
	const text = "# a comment\nmetadata:\n  name: a\n  labels:\n    app.io/x: y\ncontainers:\n- image: b\n-\n  image: c\n- null\n"
	docs, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"":                          2,
		"metadata.name":             3,
		"metadata.labels[app.io/x]": 5,
		"metadata.labels[absent]":   4,
		"containers[0].image":       7,
		"containers[1].image":       9,
		"containers[1].ports[0]":    9,
		"containers[2].image":       7,
		"containers[9]":             6,
		"spec.x":                    2,
	} {
		if got := docs[0].LineOf(path); got != want {
			t.Errorf("LineOf(%q) = %d, want %d", path, got, want)
		}
	}
	if !docs[0].Has("metadata.name") || docs[0].Has("metadata.nope") {
		t.Error("Has tells present from absent fields wrongly")
	}
}

func TestItemsAreDocumentsWithTheLinesOfTheirFile(t *testing.T) {
	docs, err := Parse([]byte("kind: List\nitems:\n- name: a\n- name: b\n  spec:\n    nope: 1\n- null\nempty: null\ntext: x\n"))
	if err != nil {
		t.Fatal(err)
	}
	items, err := docs[0].Items("items")
	if err != nil || len(items) != 3 {
		t.Fatalf("%d items, %v; want 3", len(items), err)
	}
	got := []int{items[0].Line, items[1].Line, items[1].LineOf("spec.nope"), items[2].Line, items[2].LineOf("x")}
	if diff := cmp.Diff([]int{3, 4, 6, 3, 3}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	var item struct {
		Name string `json:"name"`
	}
	if err := items[1].Decode(&item); err != nil || item.Name != "b" {
		t.Errorf("the second item is %+v, %v", item, err)
	}
	if issues := items[1].Check(&item); len(issues) != 1 || issues[0].Line != 5 || issues[0].Field != "spec" {
		t.Errorf("issues of the second item %+v", issues)
	}
	if issues := items[2].Check(&item); len(issues) > 0 {
		t.Errorf("issues of null %+v", issues)
	}
	for _, field := range []string{"empty", "absent"} {
		if items, err := docs[0].Items(field); err != nil || len(items) > 0 {
			t.Errorf("%s: %d items, %v", field, len(items), err)
		}
	}
	if _, err := docs[0].Items("text"); err == nil {
		t.Error("a text is no list")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"a: 1", "{\"a\": [1, {\"b\": null}]}", "a: &x [1]\nb: *x\n", "---\n...\n--- |\n text\n", "<<: {a: 1}\na: 2", "? {a: b}\n: c", "~: 1",
		"a: !!binary AAAA\nb: 1e3\nc: 0x1f\nd: 2001-01-01\n", "%YAML 1.1\n---\n", "{\n\t", "- - - -", "a: .inf\nb: .nan\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := Parse(data)
		if err != nil {
			if _, ok := errors.AsType[*SyntaxError](err); !ok {
				t.Fatalf("error of type %T: %v", err, err)
			}
			return
		}
		// YAML breaks lines at more than newlines.
		lines := 1 + strings.Count(string(data), "\n") + strings.Count(string(data), "\r") +
			strings.Count(string(data), "\u0085") + strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029")
		for _, d := range docs {
			if !json.Valid(d.JSON()) {
				t.Fatalf("not JSON: %s", d.JSON())
			}
			wrong := false
			for _, issue := range d.Check(&object{}) {
				if issue.Line < 1 || issue.Line > lines+1 {
					t.Errorf("%s: line %d of %d", issue.Field, issue.Line, lines)
				}
				wrong = wrong || issue.Kind == WrongType
			}
			if err := d.Decode(&object{}); err != nil && !wrong {
				t.Errorf("Decode fails on what Check accepts: %v", err)
			}
		}
	})
}

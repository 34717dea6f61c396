package support_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// marker is how the API says which feature gate a field is behind.
var marker = regexp.MustCompile(`\+featureGate=(\w+)`)

// gates returns the feature gates of the fields of the API, by "Type.Field".
func gates(t *testing.T) map[string]string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatalf("find the source of k8s.io/api: %v", err)
	}
	out := map[string]string{}
	for _, name := range []string{"core/v1/types.go", "discovery/v1/types.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				gatesOf(spec.Name.Name, s, out)
			}
			return false
		})
	}
	return out
}

func gatesOf(owner string, s *ast.StructType, out map[string]string) {
	for _, f := range s.Fields.List {
		found := marker.FindStringSubmatch(comment(f.Doc))
		for _, name := range f.Names {
			if found != nil {
				out[owner+"."+name.Name] = found[1]
			}
		}
	}
}

// comment is a comment with its markers, which Text leaves out.
func comment(g *ast.CommentGroup) string {
	var out strings.Builder
	if g != nil {
		for _, c := range g.List {
			out.WriteString(c.Text + "\n")
		}
	}
	return out.String()
}

// gateDefaults are the gates that a kubelet knows, and whether they are on.
func gateDefaults(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "examples", "kubelet", "gates.txt"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		out[words[0]] = words[1]
	}
	return out
}

// version returns the version of Kubernetes whose API it is.
func version(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatalf("find the version of k8s.io/api: %v", err)
	}
	return strings.Replace(strings.TrimSpace(string(out)), "v0.", "1.", 1)
}

package reference_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/runtime/images/reference"
)

var (
	digest = "sha256:" + strings.Repeat("0a", 32)
	long   = strings.Repeat("a", 256)
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name string
		want reference.Reference
	}{
		{"web", reference.Reference{Name: "web", Registry: "docker.io", Path: "library/web", Tag: "latest"}},
		{"team/web:1", reference.Reference{Name: "team/web", Registry: "docker.io", Path: "team/web", Tag: "1"}},
		{"index.docker.io/web", reference.Reference{Name: "index.docker.io/web", Registry: "docker.io", Path: "library/web", Tag: "latest"}},
		{"localhost/web", reference.Reference{Name: "localhost/web", Registry: "localhost", Path: "web", Tag: "latest"}},
		{"localhost:5000/web:2", reference.Reference{Name: "localhost:5000/web", Registry: "localhost:5000", Path: "web", Tag: "2"}},
		{"HOST/web", reference.Reference{Name: "HOST/web", Registry: "HOST", Path: "web", Tag: "latest"}},
		{"[::1]:5000/a/b__c-d.e", reference.Reference{Name: "[::1]:5000/a/b__c-d.e", Registry: "[::1]:5000", Path: "a/b__c-d.e", Tag: "latest"}},
		{"web@" + digest, reference.Reference{Name: "web", Registry: "docker.io", Path: "library/web", Digest: digest}},
		{"web:1@" + digest, reference.Reference{Name: "web", Registry: "docker.io", Path: "library/web", Tag: "1", Digest: digest}},
		{"my_registry.local/web", reference.Reference{Name: "my_registry.local/web", Registry: "my_registry.local", Path: "web", Tag: "latest"}},
		{strings.Repeat("0a", 32) + ":1", reference.Reference{Name: strings.Repeat("0a", 32), Registry: "docker.io", Path: "library/" + strings.Repeat("0a", 32), Tag: "1"}},
		{"web:V_1.-x", reference.Reference{Name: "web", Registry: "docker.io", Path: "library/web", Tag: "V_1.-x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := reference.Parse(c.name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvalidNames(t *testing.T) {
	for _, name := range []string{
		"", " ", "web:", "web@", ":1", "/web", "web/", "a//b", "Web", "team/Web", "web tag", "web:-1", "web:a b",
		"web@sha256:12", "web@md5:" + strings.Repeat("0", 32), "web@sha256:" + strings.Repeat("0A", 32),
		"reg.example:port/web", "reg.example:/web", "my_registry:5000/web", "-reg.example/web", "reg..example/web", "[::1/web", "[zz]/web",
		"a___b", "a.-b", "-web", "web_", strings.Repeat("0a", 32), "reg.example/" + long, "web:" + long, "web@" + digest + "@" + digest,
		"https://reg.example/web", "réseau/web", "web\x00",
	} {
		t.Run(name, func(t *testing.T) {
			if ref, err := reference.Parse(name); !errors.Is(err, reference.ErrInvalid) {
				t.Errorf("Parse gives %+v and error %v, want ErrInvalid", ref, err)
			}
		})
	}
}

func TestForms(t *testing.T) {
	for _, c := range []struct {
		name       string
		wantString string
		wantTagged string
		wantFloats bool
	}{
		{"web", "docker.io/library/web:latest", "web:latest", true},
		{"team/web:latest", "docker.io/team/web:latest", "team/web:latest", true},
		{"reg.example/web:1", "reg.example/web:1", "reg.example/web:1", false},
		{"web@" + digest, "docker.io/library/web@" + digest, "web@" + digest, false},
		{"web:latest@" + digest, "docker.io/library/web:latest@" + digest, "web:latest@" + digest, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ref, err := reference.Parse(c.name)
			if err != nil {
				t.Fatal(err)
			}
			if got := ref.String(); got != c.wantString {
				t.Errorf("String is %q, want %q", got, c.wantString)
			}
			if got := ref.Tagged(); got != c.wantTagged {
				t.Errorf("Tagged is %q, want %q", got, c.wantTagged)
			}
			if got := ref.FloatingTag(); got != c.wantFloats {
				t.Errorf("FloatingTag is %v, want %v", got, c.wantFloats)
			}
		})
	}
}

// Whatever is accepted can be written out in full and read again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"web", "team/web:1", "localhost:5000/a/b@" + digest, "[::1]:5000/a", "index.docker.io/library/x:latest", "HOST/x", "a/b:c@d", "::", "@", "/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		ref, err := reference.Parse(name)
		if err != nil {
			if !errors.Is(err, reference.ErrInvalid) {
				t.Errorf("error of %q is %v, want ErrInvalid", name, err)
			}
			return
		}
		if !strings.HasPrefix(name, ref.Name) {
			t.Errorf("%q has the name %q", name, ref.Name)
		}
		for _, form := range []string{ref.String(), ref.Tagged()} {
			again, err := reference.Parse(form)
			if err != nil {
				t.Errorf("%q becomes %q, which is refused: %v", name, form, err)
			}
			again.Name = ref.Name
			if again != ref {
				t.Errorf("%q is %+v, but by its form %q it is %+v", name, ref, form, again)
			}
		}
	})
}

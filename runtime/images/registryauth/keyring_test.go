package registryauth

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// named returns credentials whose user is the key they are under.
func named(registries ...string) Auths {
	auths := Auths{}
	for _, r := range registries {
		auths[r] = Credential{Username: r}
	}
	return auths
}

func users(credentials []Credential) []string {
	var names []string
	for _, c := range credentials {
		names = append(names, c.Username)
	}
	return names
}

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		name       string
		keys       []string
		repository string
		want       []string
	}{
		{"host", []string{"reg.example", "other.example"}, "reg.example/web", []string{"reg.example"}},
		{"the longest path first", []string{"reg.example", "reg.example/a/b", "reg.example/a"}, "reg.example/a/b/web", []string{"reg.example/a/b", "reg.example/a", "reg.example"}},
		{"another path", []string{"reg.example/a"}, "reg.example/b/web", nil},
		{"a path is a prefix of letters", []string{"reg.example/te"}, "reg.example/team/web", []string{"reg.example/te"}},
		{"a name before a glob", []string{"*.example", "reg.example"}, "reg.example/web", []string{"reg.example", "*.example"}},
		{"a glob is one part", []string{"*.example"}, "a.reg.example/web", nil},
		{"globs inside parts", []string{"re*.*.example"}, "reg.eu.example/web", []string{"re*.*.example"}},
		{"no glob in paths", []string{"reg.example/*"}, "reg.example/web", nil},
		{"the port counts", []string{"reg.example", "reg.example:5000"}, "reg.example:5000/web", []string{"reg.example:5000"}},
		{"no port is none", []string{"reg.example:443"}, "reg.example/web", nil},
		{"a glob with a port", []string{"*.example:5000"}, "reg.example:5000/web", []string{"*.example:5000"}},
		{"URLs", []string{"https://reg.example/v2/", "http://reg.example/v1/team"}, "reg.example/team/web", []string{"http://reg.example/v1/team", "https://reg.example/v2/"}},
		{"docker.io as docker login writes it", []string{"https://index.docker.io/v1/"}, "docker.io/library/web", []string{"https://index.docker.io/v1/"}},
		{"docker.io by its name goes before that", []string{"https://index.docker.io/v1/", "docker.io"}, "docker.io/library/web", []string{"docker.io"}},
		{"docker.io is not others", []string{"https://index.docker.io/v1/"}, "reg.example/web", nil},
		{"an address", []string{"[::1]:5000", "10.0.0.1"}, "[::1]:5000/web", []string{"[::1]:5000"}},
		{"nonsense is left out", []string{"%zz", "reg.example"}, "reg.example/web", []string{"reg.example"}},
		{"a version is a path in a repository", []string{"reg.example/web"}, "reg.example/v1/web", nil},
		{"nonsense", []string{"reg.example"}, "%zz", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			keyring := &Keyring{}
			keyring.Add(named(c.keys...), Source{})
			if diff := cmp.Diff(c.want, users(keyring.Lookup(c.repository))); diff != "" {
				t.Errorf("Lookup (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLookupOfNothing(t *testing.T) {
	var none *Keyring
	if got := none.Lookup("reg.example/web"); got != nil {
		t.Errorf("nil keyring has %v", got)
	}
}

// What was added first is tried first among equals, so that an old and a new
// password can be on a node at the same time.
func TestEqualKeysKeepTheirOrder(t *testing.T) {
	keyring := &Keyring{}
	for _, user := range []string{"old", "new"} {
		keyring.Add(Auths{"reg.example": {Username: user}}, Source{})
	}
	if diff := cmp.Diff([]string{"old", "new"}, users(keyring.Lookup("reg.example/web"))); diff != "" {
		t.Errorf("Lookup (-want +got):\n%s", diff)
	}
}

// TestJoinedKeyringsAreOne has the most specific path first, whichever keyring it was on.
func TestJoinedKeyringsAreOne(t *testing.T) {
	one, two := &Keyring{}, &Keyring{}
	one.Add(Auths{"reg.example": {Username: "broad"}}, Source{})
	two.Add(Auths{"reg.example": {Username: "broad, later"}, "reg.example/team": {Username: "team"}}, Source{})
	one.Join(two)
	one.Join(nil)
	if diff := cmp.Diff([]string{"team", "broad", "broad, later"}, users(one.Lookup("reg.example/team/web"))); diff != "" {
		t.Errorf("Lookup (-want +got):\n%s", diff)
	}
}

func TestUnique(t *testing.T) {
	in := []Credential{{Username: "a", Source: Source{Secret: &ObjectRef{Name: "s"}}}, {Username: "b"}, {Username: "a"}}
	got := Unique(in)
	if diff := cmp.Diff([]string{"a", "b"}, users(got)); diff != "" || got[0].Source.Secret == nil {
		t.Errorf("Unique gives %v (-want +got):\n%s", got, diff)
	}
}

func secret(name string, kind corev1.SecretType, key, data string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-" + "x"}, Type: kind,
		Data: map[string][]byte{key: []byte(data)},
	}
}

func TestFromSecrets(t *testing.T) {
	keyring, err := FromSecrets([]*corev1.Secret{
		secret("json", corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths":{"reg.example":{"username":"json"}}}`),
		secret("cfg", corev1.SecretTypeDockercfg, corev1.DockerConfigKey, `{"reg.example":{"username":"cfg"}}`),
		secret("opaque", corev1.SecretTypeOpaque, corev1.DockerConfigKey, `{"reg.example":{"username":"no"}}`),
		secret("broken", corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `s3cret`),
		secret("keyless", corev1.SecretTypeDockercfg, "other", `{}`),
	})
	wantError(t, err, "secret ns/opaque", "secret ns/broken", "secret ns/keyless")
	got := keyring.Lookup("reg.example/web")
	if diff := cmp.Diff([]string{"json", "cfg"}, users(got)); diff != "" {
		t.Fatalf("Lookup (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&ObjectRef{UID: "uid-x", Namespace: "ns", Name: "json"}, got[0].Source.Secret); diff != "" {
		t.Errorf("source (-want +got):\n%s", diff)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, data string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := KubeletFiles(filepath.Join(dir, "kubelet"), filepath.Join(dir, "home"))
	files.Paths = files.Paths[:2] // not those of this machine
	files.Paths = append(files.Paths, filepath.Join(dir, "home/.dockercfg"))
	lookup := func(wantErr ...string) string {
		t.Helper()
		keyring, err := files.Keyring()
		wantError(t, err, wantErr...)
		return strings.Join(users(keyring.Lookup("reg.example/web")), " ")
	}
	if got := lookup(); got != "" {
		t.Errorf("without files there is %q", got)
	}
	write("home/.dockercfg", `{"reg.example":{"username":"legacy"}}`)
	if got := lookup(); got != "legacy" {
		t.Errorf("credential is %q, want that of the old form", got)
	}
	write("home/.docker/config.json", `{"auths":{"reg.example":{"username":"home"}}}`)
	if got := lookup(); got != "home" {
		t.Errorf("credential is %q, want that of the home directory", got)
	}
	write("kubelet/config.json", `s3cret`)
	if got := lookup("kubelet/config.json"); got != "home" {
		t.Errorf("credential is %q, want that of the next place", got)
	}
	write("kubelet/config.json", `{"auths":{"reg.example":{"username":"kubelet"}}}`)
	if got := lookup(); got != "kubelet" {
		t.Errorf("credential is %q, want that of the first place", got)
	}
	if err := os.Truncate(filepath.Join(dir, "kubelet/config.json"), maxFileSize+1); err != nil {
		t.Fatal(err)
	}
	if got := lookup("larger than"); got != "home" {
		t.Errorf("credential is %q, want that of the next place", got)
	}
}

func TestKubeletFiles(t *testing.T) {
	want := []string{
		"/var/lib/kubelet/config.json", "/root/.docker/config.json", "/.docker/config.json",
		"/var/lib/kubelet/.dockercfg", "/root/.dockercfg", "/.dockercfg",
	}
	if diff := cmp.Diff(want, KubeletFiles("/var/lib/kubelet", "/root").Paths); diff != "" {
		t.Errorf("KubeletFiles (-want +got):\n%s", diff)
	}
}

// TestVersionsInPaths: the path of an API version is none in a Docker configuration, and
// one like any other in matchImages.
func TestVersionsInPaths(t *testing.T) {
	for _, c := range []struct {
		text, repository   string
		registry, provider bool
	}{
		{"reg.example/v2/team", "reg.example/v2/team/web", false, true},
		{"reg.example/v2/team", "reg.example/team/web", true, false},
		{"reg.example/v1/", "reg.example/web", true, false},
		{"reg.example/team", "reg.example/team/web", true, true},
		{"reg.example/", "reg.example/team/web", true, true},
	} {
		target, err := parseRepository(c.repository)
		if err != nil {
			t.Fatal(err)
		}
		for _, as := range []struct {
			name  string
			parse func(string) (pattern, error)
			want  bool
		}{{"registry", parseRegistry, c.registry}, {"matchImages", parsePattern, c.provider}} {
			p, err := as.parse(c.text)
			if got := p.matches(target); err != nil || got != as.want {
				t.Errorf("%s %q matches %q: %t, %v; want %t", as.name, c.text, c.repository, got, err, as.want)
			}
		}
	}
}

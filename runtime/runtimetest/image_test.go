package runtimetest

import "testing"

func TestFullName(t *testing.T) {
	for name, want := range map[string]string{
		"web":                              "docker.io/library/web:latest",
		"web:1":                            "docker.io/library/web:1",
		"team/web":                         "docker.io/team/web:latest",
		"localhost/web:1":                  "localhost/web:1",
		"localhost:5000/web":               "localhost:5000/web:latest",
		"registry.example/team/web:1":      "registry.example/team/web:1",
		"registry.example/web@sha256:0123": "registry.example/web@sha256:0123",
	} {
		if got := fullName(name); got != want {
			t.Errorf("full name of %q is %q, want %q", name, got, want)
		}
		if got := fullName(want); got != want {
			t.Errorf("full name of %q is %q, want itself", want, got)
		}
	}
}

func FuzzFullName(f *testing.F) {
	for _, seed := range []string{"web", "team/web:1", "localhost:5000/web", "r.example/web@sha256:0", "/", ":", "@"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		full := fullName(name)
		if again := fullName(full); again != full {
			t.Errorf("%q gives %q, which gives %q", name, full, again)
		}
		if i := newImage(full, 0); i.GetId() == "" || i.GetSize() == 0 {
			t.Errorf("image of %q is %v", full, i)
		}
	})
}

package images

import (
	"strings"
	"testing"
)

func TestCodename(t *testing.T) {
	for _, test := range []struct{ name, release, want string }{
		{"Debian 12", "ID=debian\nVERSION_CODENAME=bookworm\n", "bookworm"},
		{"quoted, without line break", `VERSION_CODENAME="trixie"`, "trixie"},
		{"none", "ID=arch\n", ""},
		{"empty", "VERSION_CODENAME=\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := codename(test.release)
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestKeepDebian(t *testing.T) {
	for _, test := range []struct {
		name string
		want bool
	}{
		{"usr/bin/bash", true},
		{"usr/share/doc", true}, // The folder itself stays.
		{"usr/share/doc/bash", false},
		{"usr/share/documents", true},
		{"usr/bin/sh", false}, // Replaced.
		{"dev/null", false},
		{"var/lib/apt/lists/x", false},
		{"var/lib/dpkg/status", true},
	} {
		if got := keepDebian(test.name); got != test.want {
			t.Errorf("keepDebian(%q) = %v, want %v", test.name, got, test.want)
		}
	}
}

func TestUserOfImageIsInItsGroup(t *testing.T) {
	passwd := string(addUser([]byte("root:x:0:0:root:/root:/bin/bash\n")))
	group := string(addGroups([]byte("root:x:0:\n")))
	if !strings.Contains(passwd, "\nuser-defined-in-image:x:1000:1000:") {
		t.Errorf("no user with the id 1000 in\n%s", passwd)
	}
	if !strings.Contains(group, "\ngroup-defined-in-image:x:50000:user-defined-in-image\n") {
		t.Errorf("no group with the id 50000 in\n%s", group)
	}
}

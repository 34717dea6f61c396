package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// debianPackages are what the suites run in containers, besides Debian's minimal set.
func debianPackages() []string {
	return []string{
		"bind9-dnsutils", "busybox-static", "ca-certificates", "conntrack", "curl", "iperf", "iproute2",
		"iputils-ping", "netcat-openbsd", "nginx-light", "procps", "socat", "wget",
	}
}

// debianRoot returns a folder with a small Debian, installed now unless it is in the
// cache: several recipes in a row need the same one.
func debianRoot(ctx context.Context, w workshop) (string, error) {
	data, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", err
	}
	release, err := codename(string(data))
	if err != nil {
		return "", err
	}
	what := release + " " + strings.Join(debianPackages(), " ")
	root := filepath.Join(w.cache, "debian@"+digestOf([]byte(what))[:16])
	if exists(root) {
		return root, nil
	}
	w.progress("installing a small Debian " + release + " for the images")
	fresh := w.path("root")
	if err := bootstrap(ctx, w.repo, release, fresh); err != nil {
		return "", err
	}
	return root, os.Rename(fresh, root)
}

// bootstrap installs a small Debian into root. It runs in a mount and process namespace
// of its own: a killed one leaves no mount.
func bootstrap(ctx context.Context, repo repository, release, root string) error {
	if os.Geteuid() != 0 {
		return errors.New("installing a Debian for the images needs root")
	}
	if err := repo.install(ctx, "debootstrap"); err != nil {
		return err
	}
	return quietly(exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child",
		"debootstrap", "--variant=minbase", "--include="+strings.Join(debianPackages(), ","), release, root))
}

// codename returns the name of a Debian release from its os-release(5).
func codename(osRelease string) (string, error) {
	for line := range strings.Lines(osRelease) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok && name != "" {
			return strings.Trim(name, `"'`), nil
		}
	}
	return "", errors.New("/etc/os-release has no VERSION_CODENAME: the images are made from the packages of a Debian release")
}

// binSh is /bin/sh in the images.
const binSh = "usr/bin/sh"

// addDebian writes the installed Debian without what no container needs, and with bash
// as shell. Debian's own drops variables of the environment whose names no shell can
// write, such as data-1, and the suites look for those.
func addDebian(archive *tar.Writer, root string) error {
	if err := addTree(archive, root, keepDebian); err != nil {
		return err
	}
	return addEntries(archive, []entry{{name: binSh, mode: 0o777, target: "bash"}})
}

// emptied are folders whose content is left out.
func emptied() []string {
	return []string{
		"dev", "proc", "run", "sys", "tmp", "debootstrap", "var/cache", "var/lib/apt/lists", "var/log",
		"usr/share/doc", "usr/share/info", "usr/share/locale", "usr/share/man", "usr/share/i18n",
		"usr/lib/x86_64-linux-gnu/gconv", "usr/lib/aarch64-linux-gnu/gconv",
	}
}

// keepDebian reports whether a file, named relative to the root, is in the images.
func keepDebian(name string) bool {
	if name == binSh {
		return false
	}
	for _, dir := range emptied() {
		if strings.HasPrefix(name, dir+"/") {
			return false
		}
	}
	return true
}

// appletEntries are links to BusyBox in /bin for each program that it can be and that
// Debian does not have there, for an image of BusyBox has them all; and for top, since
// Debian's wants a terminal.
func appletEntries(ctx context.Context, root string) ([]entry, error) {
	list, err := output(ctx, root, filepath.Join(root, "usr/bin/busybox"), "--list")
	if err != nil {
		return nil, err
	}
	var entries []entry
	for name := range strings.FieldsSeq(list) {
		_, err := os.Lstat(filepath.Join(root, "usr/bin", name))
		if errors.Is(err, fs.ErrNotExist) || name == "top" {
			entries = append(entries, entry{name: "usr/bin/" + name, mode: 0o777, target: "busybox"})
		}
	}
	return entries, nil
}

// agnhostEntries are the files of agnhost above Debian: those of upstream's
// test/images/agnhost/Dockerfile that the suites use.
func agnhostEntries(ctx context.Context, repo repository, p parts) ([]entry, error) {
	source, err := repo.source(ctx, agnhost().dependency, agnhost().module)
	if err != nil {
		return nil, err
	}
	passwd, err := os.ReadFile(filepath.Join(p.root, "etc/passwd"))
	if err != nil {
		return nil, err
	}
	group, err := os.ReadFile(filepath.Join(p.root, "etc/group"))
	if err != nil {
		return nil, err
	}
	porter := filepath.Join(source, "test/images/agnhost/porter")
	return []entry{
		{name: "agnhost", mode: 0o755, path: p.agnhost},
		{name: "agnhost-2", mode: 0o777, target: "agnhost"},
		{name: "uploads/", mode: 0o755},
		{name: "localhost.crt", mode: 0o644, path: filepath.Join(porter, "localhost.crt")},
		{name: "localhost.key", mode: 0o644, path: filepath.Join(porter, "localhost.key")},
		{name: "usr/local/bin/iperf", mode: 0o777, target: "/usr/bin/iperf"},
		{name: "etc/passwd", mode: 0o644, data: addUser(passwd)},
		{name: "etc/group", mode: 0o644, data: addGroups(group)},
	}, nil
}

// addUser adds the user whose groups a spec of SupplementalGroupsPolicy looks at.
func addUser(passwd []byte) []byte {
	return fmt.Appendf(passwd, "user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh\n")
}

func addGroups(group []byte) []byte {
	return fmt.Appendf(group, "user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n")
}

// nginxConfig serves the folder that upstream's image serves.
const nginxConfig = `error_log /dev/stderr;
pid /run/nginx.pid;
events {}
http {
  include /etc/nginx/mime.types;
  access_log /dev/stdout;
  server {
    listen 80;
    listen [::]:80;
    root /usr/share/nginx/html;
  }
}
`

func nginxEntries() []entry {
	return []entry{
		{name: "etc/nginx/nginx.conf", mode: 0o644, data: []byte(nginxConfig)},
		{name: "var/log/nginx/", mode: 0o755},
		{name: "var/lib/nginx/", mode: 0o755},
	}
}

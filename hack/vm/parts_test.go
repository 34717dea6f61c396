package main

import (
	"bytes"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestArchiveIsWhatCpioReads(t *testing.T) {
	if _, err := exec.LookPath("cpio"); err != nil {
		t.Skip(err)
	}
	var packed bytes.Buffer
	a := newArchive(&packed)
	a.bytes("/a/b/file", []byte("odd"))
	a.bytes("a/b/file", []byte("the second of a name is passed over"))
	a.link("/link", "a/b/file")
	a.tree("/data", "testdata")
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	list := exec.Command("cpio", "--list", "--quiet")
	list.Stdin = bytes.NewReader(packed.Bytes())
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	want := []string{"a", "a/b", "a/b/file", "link", "data", "data/greeting", "data/job", "data/job/main.go"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	dir := t.TempDir()
	extract := exec.Command("cpio", "--extract", "--quiet", "--to-stdout", "a/b/file", "data/greeting")
	extract.Stdin, extract.Dir = bytes.NewReader(packed.Bytes()), dir
	if out, err = extract.Output(); err != nil || string(out) != "oddgood morning\n" {
		t.Errorf("contents = %q, %v", out, err)
	}
}

func TestArchiveTellsOfMissingFiles(t *testing.T) {
	a := newArchive(new(bytes.Buffer))
	a.file("/x", filepath.Join(t.TempDir(), "absent"))
	if err := a.close(); err == nil {
		t.Error("no error for a file that is not there")
	}
}

func TestLibrariesOfLddOutput(t *testing.T) {
	got := parseLibraries(`	linux-vdso.so.1 (0x00007ffd1a5f5000)
	libmnl.so.0 => /lib/x86_64-linux-gnu/libmnl.so.0 (0x00007f2c8a0d2000)
	libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f2c89ef1000)
	/lib64/ld-linux-x86-64.so.2 (0x00007f2c8a1e0000)
`)
	want := []string{"/lib/x86_64-linux-gnu/libmnl.so.0", "/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("libraries (-want +got):\n%s", diff)
	}
}

func TestModulesComeWithWhatTheyNeed(t *testing.T) {
	deps, err := parseDependencies(strings.NewReader(`kernel/net/sctp/sctp.ko: kernel/lib/libcrc32c.ko
kernel/lib/libcrc32c.ko:
kernel/drivers/net/dummy.ko.xz:
kernel/drivers/net/dummy-other.ko:
kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko
`))
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(deps.pick([]string{"net/sctp/", "dummy"})))
	want := []string{"kernel/drivers/net/dummy.ko.xz", "kernel/lib/libcrc32c.ko", "kernel/net/sctp/sctp.ko"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
	if _, err := parseDependencies(strings.NewReader("no colon\n")); err == nil {
		t.Error("a line without a colon is taken")
	}
}

func TestEngineNames(t *testing.T) {
	for name, want := range map[string]string{
		"uml":                          "uml",
		"qemu":                         "qemu:linux-image-6.12-cloud-amd64",
		"qemu:linux-image-cloud-amd64": "qemu:linux-image-cloud-amd64",
		"kvm":                          "",
		"uml:x":                        "",
	} {
		e, err := engineNamed(name)
		if (err != nil) != (want == "") || err == nil && e.String() != want {
			t.Errorf("engineNamed(%q) = %s, %v; want %q", name, e, err, want)
		}
	}
}

func TestFilesForTheGuest(t *testing.T) {
	here, err := filepath.Abs("testdata/greeting")
	if err != nil {
		t.Fatal(err)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string][2]string{
		"testdata/greeting":        {here, here},
		"/etc/x=testdata/greeting": {"/etc/x", here},
		"sh":                       {sh, sh},
		"/usr/bin/other=sh":        {"/usr/bin/other", sh},
		"testdata/absent":          {},
		"no-such-program-anywhere": {},
	} {
		guest, host, err := hostFile(spec)
		if got := [2]string{guest, host}; got != want || (err != nil) != (want == [2]string{}) {
			t.Errorf("hostFile(%q) = %q, %v; want %q", spec, got, err, want)
		}
	}
}

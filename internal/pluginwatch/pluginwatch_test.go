package pluginwatch_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/nodekit-go/nodekit/internal/pluginwatch"
)

func TestRegistration(t *testing.T) {
	b := newBook(t)
	dir := watch(t, b, 0)
	below := filepath.Join(dir, "sub", "deep")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	top, deep, hidden, implied := csi("top.example"), csi("deep.example"), csi("hidden.example"), csi("implied.example")
	implied.info.Endpoint = ""
	hidden.listen(t, filepath.Join(dir, ".hidden.sock"))
	if err := os.WriteFile(filepath.Join(dir, "file.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	top.listen(t, filepath.Join(dir, "top.sock"))
	deep.listen(t, filepath.Join(below, "deep.sock"))
	implied.listen(t, filepath.Join(dir, "implied.sock"))
	for _, p := range []*plugin{top, deep, implied} {
		eventually(t, "the registration", p.registered)
	}
	got, _ := b.entry("top.example")
	want := pluginwatch.Plugin{
		Type: pluginwatch.CSI, Name: "top.example", Endpoint: "/run/top.example",
		Versions: []string{"1.0.0"}, Socket: filepath.Join(dir, "top.sock"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plugin (-want +got):\n%s", diff)
	}
	if p, _ := b.entry("implied.example"); p.Endpoint != p.Socket {
		t.Errorf("endpoint of a plugin that names none is %s, want its socket", p.Endpoint)
	}
	if err := os.Remove(filepath.Join(dir, "top.sock")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of top", func() bool { return !b.has("top.example") })
	if err := os.RemoveAll(filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of deep", func() bool { return !b.has("deep.example") })
	if !b.has("implied.example") || hidden.count() != 0 {
		t.Errorf("registered are %v, and a hidden one was asked %d times", b.list(), hidden.count())
	}
}

// TestRefusals tells plugins why they are not registered, and asks them again.
func TestRefusals(t *testing.T) {
	tests := []struct {
		name string
		info *registerapi.PluginInfo
		want string
	}{
		{"nothing", &registerapi.PluginInfo{}, "the type of the plugin"},
		{"unknown type", &registerapi.PluginInfo{Type: "Other", Name: "a"}, `plugins of type "Other" are not known`},
		{"no name", &registerapi.PluginInfo{Type: pluginwatch.CSI}, "the name of the plugin"},
		{"odd name", &registerapi.PluginInfo{Type: pluginwatch.CSI, Name: "a\nb"}, "the name of the plugin"},
		{"long name", &registerapi.PluginInfo{Type: pluginwatch.CSI, Name: strings.Repeat("a", 1000)}, "at most 512 bytes"},
		{"relative endpoint", &registerapi.PluginInfo{Type: pluginwatch.CSI, Name: "a", Endpoint: "csi.sock"}, "want an absolute path"},
		{"many versions", &registerapi.PluginInfo{Type: pluginwatch.CSI, Name: "a", SupportedVersions: make([]string, 65)}, "65 versions"},
	}
	b := newBook(t)
	dir := watch(t, b, 0)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := &plugin{info: tt.info}
			socket := filepath.Join(dir, string(rune('a'+i))+".sock")
			p.listen(t, socket)
			eventually(t, "the refusal", func() bool { told, _, _ := p.told(); return told })
			if _, registered, why := p.told(); registered || !strings.Contains(why, tt.want) {
				t.Errorf("told %v and %q, want a refusal with %q", registered, why, tt.want)
			}
			p.set(func(p *plugin) { p.info = csi("mended" + string(rune('a'+i))).info })
			eventually(t, "the registration after all", p.registered)
		})
	}
}

// TestBadPlugins has plugins that fail in all ways, and a good one that none of them
// holds up.
func TestBadPlugins(t *testing.T) {
	b := newBook(t)
	dir := watch(t, b, 2*time.Second)
	// One that hangs, one that talks nonsense, one that is dead, one that floods.
	hung, flood, deaf := csi("hung.example"), csi("flood.example"), csi("deaf.example")
	hung.hang = true
	flood.info.SupportedVersions = []string{strings.Repeat("1", 1<<20)}
	deaf.deaf = status.Error(codes.Internal, "I do not care")
	hung.listen(t, filepath.Join(dir, "1.sock"))
	flood.listen(t, filepath.Join(dir, "2.sock"))
	deaf.listen(t, filepath.Join(dir, "3.sock"))
	nonsense(t, filepath.Join(dir, "4.sock"))
	stale := csi("stale.example")
	stale.listen(t, filepath.Join(dir, "5.sock"))
	stale.kill()
	good := csi("good.example")
	good.listen(t, filepath.Join(dir, "6.sock"))
	eventually(t, "the registration of the good one", good.registered)
	eventually(t, "a second attempt with those that fail", func() bool {
		return hung.count() > 1 && flood.count() > 1 && deaf.count() > 1
	})
	hung.set(func(p *plugin) { p.hang = false })
	eventually(t, "the registration of the one that hung", hung.registered)
	deaf.set(func(p *plugin) { p.deaf = nil })
	eventually(t, "the registration of the deaf one", func() bool { return b.has("deaf.example") })
	if b.has("stale.example") || b.has("flood.example") {
		t.Errorf("registered are %v", b.list())
	}
}

// nonsense answers with garbage.
func nonsense(t *testing.T, socket string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n<html>"))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
}

// TestHandlerRefuses tells the plugin the reason, and tries again.
func TestHandlerRefuses(t *testing.T) {
	b := newBook(t)
	b.set(errors.New("no node ID"))
	dir := watch(t, b, 0)
	p := csi("disk.example")
	p.listen(t, filepath.Join(dir, "a.sock"))
	eventually(t, "the refusal", func() bool { told, _, _ := p.told(); return told })
	if _, registered, why := p.told(); registered || !strings.Contains(why, "no node ID") {
		t.Errorf("told %v and %q", registered, why)
	}
	b.set(nil)
	eventually(t, "the registration", p.registered)
}

// TestNewSocket registers anew what a plugin that was restarted made anew.
func TestNewSocket(t *testing.T) {
	b := newBook(t)
	dir := watch(t, b, 0)
	socket := filepath.Join(dir, "a.sock")
	for range 5 {
		p := csi("disk.example")
		p.listen(t, socket)
		eventually(t, "the registration", p.registered)
		p.kill()
		if err := os.Remove(socket); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the end", func() bool { return !b.has("disk.example") })
	want := []string{}
	for range 5 {
		want = append(want, "+disk.example", "-disk.example")
	}
	if diff := cmp.Diff(want, b.list()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestSameName has two plugins of one name: the first one keeps it as long as it
// answers.
func TestSameName(t *testing.T) {
	b := newBook(t)
	dir := watch(t, b, 0)
	first, second := csi("disk.example"), csi("disk.example")
	first.listen(t, filepath.Join(dir, "first.sock"))
	eventually(t, "the registration of the first", first.registered)
	second.listen(t, filepath.Join(dir, "second.sock"))
	eventually(t, "the refusal of the second", func() bool { told, _, _ := second.told(); return told })
	if _, registered, why := second.told(); registered || !strings.Contains(why, "first.sock, and answers there") {
		t.Errorf("the second is told %v and %q", registered, why)
	}
	first.kill() // its socket stays
	eventually(t, "the registration of the second", second.registered)
	if p, _ := b.entry("disk.example"); p.Socket != filepath.Join(dir, "second.sock") {
		t.Errorf("registered is %s", p.Socket)
	}
}

// TestAgentEnds deregisters nobody; the next process registers anew.
func TestAgentEnds(t *testing.T) {
	dir := shortDir(t)
	first, next := newBook(t), newBook(t)
	p := csi("disk.example")
	p.listen(t, filepath.Join(dir, "a.sock"))
	stop := run(t, first, dir, 0)
	eventually(t, "the registration", func() bool { return first.has("disk.example") && p.registered() })
	stop()
	run(t, next, dir, 0)
	eventually(t, "the registration with the next", func() bool { return next.has("disk.example") })
	if diff := cmp.Diff([]string{"+disk.example"}, first.list()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestNewRefuses(t *testing.T) {
	handlers := map[string]pluginwatch.Handler{pluginwatch.CSI: newBook(t)}
	tests := []struct {
		name string
		cfg  pluginwatch.Config
		want string
	}{
		{"relative directory", pluginwatch.Config{Dir: "reg", Handlers: handlers}, "Config.Dir"},
		{"nobody decides", pluginwatch.Config{Dir: "/reg"}, "Config.Handlers"},
		{"negative timeout", pluginwatch.Config{Dir: "/reg", Handlers: handlers, Timeout: -1}, "Config.Timeout"},
	}
	for _, tt := range tests {
		if _, err := pluginwatch.New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.name, err, tt.want)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := pluginwatch.New(pluginwatch.Config{Dir: filepath.Join(file, "reg"), Handlers: handlers})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); err == nil {
		t.Error("Run with a directory that cannot be made: no error")
	}
}

// TestWithoutInotify: an agent does not end because others use up what the system has.
func TestWithoutInotify(t *testing.T) {
	b := newBook(t)
	dir := filepath.Join(shortDir(t), "reg")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	early := csi("early.example")
	early.listen(t, filepath.Join(dir, "early.sock"))
	run(t, b, dir, patience, func(w *pluginwatch.Watcher) { w.CannotWatch(errors.New("too many open files")) })
	eventually(t, "the registration", early.registered)
	late := csi("late.example")
	late.listen(t, filepath.Join(dir, "late.sock"))
	eventually(t, "the registration of one that comes later", late.registered)
}

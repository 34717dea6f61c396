package pluginwatch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/nodekit-go/nodekit/internal/plugintest"
	"github.com/nodekit-go/nodekit/internal/pluginwatch"
)

// patience is how long a test waits for what has to come.
const patience = 2 * time.Minute

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %s has not come", patience, what)
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // between two looks at another goroutine's work
	}
}

// plugin is one that registers at a socket.
type plugin struct {
	registerapi.UnimplementedRegistrationServer
	server *plugintest.Server

	mu     sync.Mutex // guards the fields below
	info   *registerapi.PluginInfo
	hang   bool  // GetInfo answers nothing
	deaf   error // what NotifyRegistrationStatus answers
	asked  int
	status []*registerapi.RegistrationStatus
}

// listen serves a plugin at a socket until the test ends.
func (p *plugin) listen(t *testing.T, socket string) {
	t.Helper()
	var err error
	if p.server, err = plugintest.Serve(socket, func(s *grpc.Server) { registerapi.RegisterRegistrationServer(s, p) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.server.Kill)
}

// kill ends the server, and leaves its socket.
func (p *plugin) kill() { p.server.Kill() }

func (p *plugin) GetInfo(ctx context.Context, _ *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	p.mu.Lock()
	p.asked++
	hang, info := p.hang, p.info
	p.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return info, nil
}

func (p *plugin) NotifyRegistrationStatus(_ context.Context, s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = append(p.status, s)
	return &registerapi.RegistrationStatusResponse{}, p.deaf
}

// set changes a plugin that serves.
func (p *plugin) set(change func(p *plugin)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// told is what the plugin was told last: whether it is registered, and why not.
func (p *plugin) told() (told, registered bool, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.status) == 0 {
		return false, false, ""
	}
	last := p.status[len(p.status)-1]
	return true, last.GetPluginRegistered(), last.GetError()
}

func (p *plugin) registered() bool {
	_, registered, _ := p.told()
	return registered
}

func (p *plugin) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func csi(name string) *plugin {
	return &plugin{info: &registerapi.PluginInfo{Type: pluginwatch.CSI, Name: name, Endpoint: "/run/" + name, SupportedVersions: []string{"1.0.0"}}}
}

// book is a Handler that notes who is registered, and fails the test when it is told
// something in a wrong order.
type book struct {
	t *testing.T

	mu     sync.Mutex // guards the fields below
	refuse error
	now    map[string]pluginwatch.Plugin
	calls  []string
}

func newBook(t *testing.T) *book {
	t.Helper()
	return &book{t: t, now: map[string]pluginwatch.Plugin{}}
}

func (b *book) Register(_ context.Context, p pluginwatch.Plugin) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if other, ok := b.now[p.Name]; ok {
		b.t.Errorf("%s is registered by %s while it is by %s", p.Name, p.Socket, other.Socket)
	}
	if b.refuse != nil {
		return b.refuse
	}
	b.now[p.Name] = p
	b.calls = append(b.calls, "+"+p.Name)
	return nil
}

func (b *book) Deregister(_ context.Context, p pluginwatch.Plugin) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now, ok := b.now[p.Name]; !ok || now.Socket != p.Socket {
		b.t.Errorf("%s of %s is deregistered and was not registered", p.Name, p.Socket)
	}
	delete(b.now, p.Name)
	b.calls = append(b.calls, "-"+p.Name)
}

func (b *book) set(refuse error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = refuse
}

func (b *book) entry(name string) (pluginwatch.Plugin, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.now[name]
	return p, ok
}

func (b *book) has(name string) bool {
	_, ok := b.entry(name)
	return ok
}

func (b *book) list() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

// watch runs a Watcher over a new directory until the test ends. Without a timeout it
// has one that no machine misses.
func watch(t *testing.T, b *book, timeout time.Duration) (dir string) {
	t.Helper()
	if timeout == 0 {
		timeout = patience
	}
	dir = filepath.Join(shortDir(t), "reg")
	run(t, b, dir, timeout)
	eventually(t, "the directory", func() bool { _, err := os.Stat(dir); return err == nil })
	return dir
}

// shortDir is a directory for sockets, whose paths have at most 107 bytes: those of
// t.TempDir may be longer.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pw") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// run runs a Watcher until the returned function is called or the test ends.
func run(t *testing.T, b *book, dir string, timeout time.Duration, edit ...func(*pluginwatch.Watcher)) (stop func()) {
	t.Helper()
	w, err := pluginwatch.New(pluginwatch.Config{Dir: dir, Handlers: map[string]pluginwatch.Handler{pluginwatch.CSI: b}, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range edit {
		f(w)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

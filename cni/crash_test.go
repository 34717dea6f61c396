package cni

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/version"
	"pgregory.net/rapid"
)

var errDead = errors.New("the process is dead")

// machine is a computer whose process can die between any two steps, and whose power
// can fail. What plugins keep is on the best of disks.
type machine struct {
	// mu guards the rest: the record is written while the first plugin starts.
	mu   sync.Mutex
	left int // steps until death
	dead bool

	held    map[string]bool   // what plugins keep
	files   map[string][]byte // records
	fresh   map[string]bool   // their name is not durable
	removed map[string][]byte // their removal is not durable
	torn    func(data []byte) []byte
	failing map[string]bool // plugin@command
	refused []string        // what no plugin may be asked for
}

func newMachine() *machine {
	return &machine{held: map[string]bool{}, files: map[string][]byte{}, fresh: map[string]bool{}, removed: map[string][]byte{}}
}

// step reports whether the process still lives.
func (m *machine) step() bool {
	if m.left--; m.left < 0 {
		m.dead = true
	}
	return !m.dead
}

// restart gives the machine a new process that lives for some steps.
func (m *machine) restart(steps int) *Invoker {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left, m.dead = steps, false
	cfg := Config{BinDirs: []string{"/bin"}, StateDir: "/state"}
	if err := cfg.complete(); err != nil {
		panic(err)
	}
	return newInvoker(cfg, m, func(_ *os.File, ready func() error) invoke.Exec { return &modelExec{machine: m, ready: ready} })
}

// modelExec runs plugins that are a line of a table.
type modelExec struct {
	version.PluginDecoder
	*machine
	ready func() error
}

func (e *modelExec) FindInPath(name string, _ []string) (string, error) { return "/bin/" + name, nil }

// ExecPlugin takes one step before the plugin acts and one after.
func (e *modelExec) ExecPlugin(_ context.Context, path string, _ []byte, environ []string) ([]byte, error) {
	if e.ready != nil {
		if err := e.ready(); err != nil {
			return nil, &PluginError{Err: err, idle: true}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.step() {
		return nil, errDead
	}
	env := map[string]string{}
	for _, v := range environ {
		key, value, _ := strings.Cut(v, "=")
		env[key] = value
	}
	name, command := filepath.Base(path), env["CNI_COMMAND"]
	what := name + " " + env["CNI_CONTAINERID"] + "/" + env["CNI_IFNAME"]
	failing := e.failing[name+"@"+command]
	switch command {
	case "ADD":
		if e.held[what] {
			e.refused = append(e.refused, "second ADD for "+what)
		}
		e.held[what] = true // a plugin that fails may have taken something too
	case "DEL":
		if !failing {
			delete(e.held, what)
		}
	}
	if !e.step() {
		return nil, errDead
	}
	if failing {
		return nil, &PluginError{Code: 999, Msg: "model"}
	}
	return []byte(`{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.1/8"}]}`), nil
}

// The machine is its own disk.

func (m *machine) Hold(context.Context, holdMode) (func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.step() {
		return nil, errDead
	}
	return func() {}, nil
}

func (m *machine) Create(_ context.Context, name string) (diskFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.step() {
		return nil, errDead
	}
	if _, ok := m.files[name]; ok {
		return nil, fs.ErrExist
	}
	m.files[name], m.fresh[name] = nil, true
	return &modelFile{m, name}, nil
}

func (m *machine) Open(_ context.Context, name string) (diskFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.step() {
		return nil, errDead
	}
	if _, ok := m.files[name]; !ok {
		return nil, fs.ErrNotExist
	}
	return &modelFile{m, name}, nil
}

func (m *machine) Peek(name string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.files[name]
	switch {
	case !m.step():
		return nil, false, errDead
	case !ok:
		return nil, false, fs.ErrNotExist
	}
	return data, false, nil
}

func (m *machine) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.step() {
		return errDead
	}
	m.removed[name] = m.files[name]
	delete(m.files, name)
	return nil
}

func (m *machine) Names() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.step() {
		return nil, errDead
	}
	return slices.Sorted(maps.Keys(m.files)), nil
}

type modelFile struct {
	*machine
	name string
}

func (f *modelFile) Read() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.step() {
		return nil, errDead
	}
	return f.files[f.name], nil
}

// Write takes its time, and two steps: a death between them leaves torn data.
func (f *modelFile) Write(data []byte, offset int64) error {
	for range 10 {
		goruntime.Gosched()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.step() {
		return errDead
	}
	if f.step() {
		clear(f.fresh) // the directory is durable with it
		clear(f.removed)
	} else {
		data = f.torn(data)
	}
	old := slices.Grow(slices.Clone(f.files[f.name]), int(offset)+len(data))
	old = old[:max(len(old), int(offset)+len(data))]
	copy(old[offset:], data)
	f.files[f.name] = old
	if f.dead {
		return errDead
	}
	return nil
}

func (f *modelFile) Inherit() *os.File { return nil }
func (f *modelFile) Close()            {}

// TestDeathAtAnyStep kills the process at random steps of random operations, and
// cuts the power at times. A new process that gets a GC must find and remove
// everything.
func TestDeathAtAnyStep(t *testing.T) {
	networks := []*Network{
		mustParse(t, `{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"a"},{"type":"b"},{"type":"c"}]}`),
		mustParse(t, `{"cniVersion":"0.3.1","name":"other","plugins":[{"type":"a"},{"type":"d"}]}`),
		Loopback(),
	}
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		m.torn = func(data []byte) []byte {
			cut := rapid.IntRange(0, len(data)).Draw(t, "torn at")
			if rapid.Bool().Draw(t, "zeros") {
				return append(slices.Clone(data[:cut]), make([]byte, len(data)-cut)...)
			}
			return slices.Clone(data[:cut])
		}
		for range rapid.IntRange(1, 6).Draw(t, "lives") {
			live(t, m, networks)
			if rapid.Bool().Draw(t, "power cut") {
				powerCut(t, m)
			}
		}
		m.failing = nil
		v := m.restart(1 << 20)
		for _, n := range networks { // a record that cannot be read needs its network's GC
			_, _ = v.GC(t.Context(), n, keep())
		}
		if removed, err := v.GC(t.Context(), nil, keep()); err != nil || len(removed) > 0 {
			t.Fatalf("GC again removed %v, %v; want nothing left to do", removed, err)
		}
		if len(m.held) > 0 || len(m.files) > 0 {
			t.Fatalf("left: %v in plugins, records %v", slices.Sorted(maps.Keys(m.held)), slices.Sorted(maps.Keys(m.files)))
		}
		if len(m.refused) > 0 {
			t.Fatalf("asked of plugins: %v", m.refused)
		}
	})
}

// powerCut undoes some of the changes to the directory that are not durable.
func powerCut(t *rapid.T, m *machine) {
	for _, name := range slices.Sorted(maps.Keys(m.fresh)) {
		if rapid.Bool().Draw(t, "gone") {
			delete(m.files, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.removed)) {
		if _, ok := m.files[name]; !ok && rapid.Bool().Draw(t, "back") {
			m.files[name] = m.removed[name]
		}
	}
	clear(m.fresh)
	clear(m.removed)
}

// live runs random operations until the process dies.
func live(t *rapid.T, m *machine, networks []*Network) {
	m.failing = map[string]bool{}
	for _, what := range []string{"a@ADD", "b@ADD", "c@ADD", "b@DEL", "a@DEL"} {
		if rapid.IntRange(0, 5).Draw(t, "failing") == 0 {
			m.failing[what] = true
		}
	}
	v := m.restart(rapid.IntRange(0, 60).Draw(t, "steps"))
	for range 20 {
		if m.dead {
			return
		}
		n := rapid.SampledFrom(networks).Draw(t, "network")
		a := Attachment{ContainerID: fmt.Sprintf("c%d", rapid.IntRange(1, 3).Draw(t, "container")), IfName: "eth0"}
		switch rapid.IntRange(0, 6).Draw(t, "operation") {
		case 0:
			_, _ = v.GC(t.Context(), n, keep(Key{"c1", "eth0"}))
		case 1, 2:
			_ = v.Del(t.Context(), n, a)
		default:
			_, _ = v.Add(t.Context(), n, a)
		}
	}
}

// TestDeathOnceAtEachStep goes through every step of one ADD and one DEL.
func TestDeathOnceAtEachStep(t *testing.T) {
	n := mustParse(t, three("1.0.0"))
	a := Attachment{ContainerID: "c1", IfName: "eth0"}
	survived := false
	for steps := 0; !survived; steps++ {
		m := newMachine()
		m.torn = func(data []byte) []byte { return data[:len(data)/2] }
		v := m.restart(steps)
		if _, err := v.Add(t.Context(), n, a); err == nil {
			survived = v.Del(t.Context(), n, a) == nil
		}
		removed, err := m.restart(1<<20).GC(t.Context(), n, keep())
		if err != nil || len(m.held)+len(m.files) > 0 {
			t.Errorf("death at step %d: GC of %v: %v; left %v, %v", steps, removed, err, m.held, m.files)
		}
		if steps > 100 {
			t.Fatal("ADD and DEL take more than 100 steps")
		}
	}
}

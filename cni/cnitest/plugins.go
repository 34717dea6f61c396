package cnitest

import (
	_ "embed" // for the script of the stubs
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// script is the program of every stub.
//
//go:embed stub.sh
var script string

// DefaultResult is what ADD prints unless SetResult says otherwise: an address of
// either family.
const DefaultResult = `{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/stub"}],` +
	`"ips":[{"address":"10.88.0.2/16","gateway":"10.88.0.1","interface":0},{"address":"fd00:88::2/64","gateway":"fd00:88::1","interface":0}]}`

// Plugins is a directory of stubs. It is removed with the test.
type Plugins struct {
	tb  testing.TB
	dir string
}

// New returns a directory with a stub for each name.
func New(tb testing.TB, names ...string) *Plugins {
	tb.Helper()
	p := &Plugins{tb: tb, dir: tb.TempDir()}
	for _, sub := range []string{"bin", "calls", "held", "behaviour", "result"} {
		p.must(os.Mkdir(filepath.Join(p.dir, sub), 0o755))
	}
	p.Install(names...)
	return p
}

// Dir is the directory of the programs.
func (p *Plugins) Dir() string { return filepath.Join(p.dir, "bin") }

// Install adds stubs.
func (p *Plugins) Install(names ...string) {
	p.tb.Helper()
	program := strings.Replace(script, "@DIR@", strings.ReplaceAll(p.dir, "'", `'\''`), 1)
	for _, name := range names {
		p.SetResult(name, DefaultResult)
		p.must(os.WriteFile(filepath.Join(p.Dir(), name), []byte(program), 0o755))
	}
}

// Uninstall removes the program of a stub. What it holds stays.
func (p *Plugins) Uninstall(name string) {
	p.tb.Helper()
	p.must(os.Remove(filepath.Join(p.Dir(), name)))
}

// SetResult sets what ADD of a stub prints. It prints that in a chain too: a stub
// does not pass on what the plugin before it returned.
func (p *Plugins) SetResult(name, result string) {
	p.tb.Helper()
	p.must(os.WriteFile(filepath.Join(p.dir, "result", name), []byte(result), 0o644))
}

// Behaviour is what a stub does instead of succeeding. An ADD has taken what it
// takes by then, and a DEL has not given it back.
type Behaviour struct {
	// Stdout and Stderr are printed.
	Stdout, Stderr string
	// Hang makes the stub wait, after it has printed, until it is killed.
	Hang bool
	// Exit is its exit code, after it has printed.
	Exit int
	// Once ends the behaviour with its first use.
	Once bool
}

// Fail returns the behaviour of a plugin that reports an error by the
// specification.
func Fail(code uint, msg string) Behaviour {
	object, err := json.Marshal(map[string]any{"cniVersion": "1.0.0", "code": code, "msg": msg, "details": "the stub was told to"})
	if err != nil {
		object = []byte(err.Error()) // strings and numbers have a form in JSON
	}
	return Behaviour{Stdout: string(object), Exit: 1}
}

// Hang returns the behaviour of a plugin that never ends.
func Hang() Behaviour { return Behaviour{Hang: true} }

// Print returns the behaviour of a plugin that succeeds with this output.
func Print(stdout string) Behaviour { return Behaviour{Stdout: stdout} }

// On sets what a stub does for a command, such as "ADD". The latest call counts.
func (p *Plugins) On(name, command string, b Behaviour) {
	p.tb.Helper()
	var s strings.Builder
	if b.Once {
		s.WriteString("rm -f \"$behaviour\"\n")
	}
	fmt.Fprintf(&s, "printf %%s %s\nprintf %%s %s >&2\n", quote(b.Stdout), quote(b.Stderr))
	if b.Hang {
		s.WriteString("exec sleep 1000000\n")
	}
	fmt.Fprintf(&s, "exit %d\n", b.Exit)
	path := p.behaviour(name, command)
	p.must(os.WriteFile(path+".new", []byte(s.String()), 0o644))
	p.must(os.Rename(path+".new", path))
}

// Off makes a stub succeed again.
func (p *Plugins) Off(name, command string) {
	p.tb.Helper()
	if err := os.Remove(p.behaviour(name, command)); !errors.Is(err, fs.ErrNotExist) {
		p.must(err)
	}
}

func (p *Plugins) behaviour(name, command string) string {
	return filepath.Join(p.dir, "behaviour", name+"@"+command)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Call is one run of a stub.
type Call struct {
	Plugin, Command, ContainerID, IfName, NetNS, Args, Path string
	// Config is what it read from its standard input.
	Config string
}

// String is short: the plugin, the command and the attachment.
func (c Call) String() string {
	s := c.Plugin + " " + c.Command
	if c.ContainerID != "" {
		s += " " + c.ContainerID + "/" + c.IfName
	}
	return s
}

// Calls returns the runs so far, in the order in which they began.
func (p *Plugins) Calls() []Call {
	p.tb.Helper()
	log, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if !errors.Is(err, fs.ErrNotExist) {
		p.must(err)
	}
	var calls []Call
	for name := range strings.FieldsSeq(string(log)) {
		data, err := os.ReadFile(filepath.Join(p.dir, "calls", name))
		p.must(err)
		f := strings.SplitN(string(data), "\n", 8)
		calls = append(calls, Call{
			Plugin: f[0], Command: f[1], ContainerID: f[2], IfName: f[3], NetNS: f[4], Args: f[5], Path: f[6], Config: f[7],
		})
	}
	return calls
}

// Forget drops the calls so far.
func (p *Plugins) Forget() {
	p.tb.Helper()
	if err := os.Remove(filepath.Join(p.dir, "log")); !errors.Is(err, fs.ErrNotExist) {
		p.must(err)
	}
}

// Held returns what ADD has taken and DEL has not given back, sorted, like
// "bridge c1/eth0".
func (p *Plugins) Held() []string {
	p.tb.Helper()
	entries, err := os.ReadDir(filepath.Join(p.dir, "held"))
	p.must(err)
	var held []string
	for _, e := range entries {
		f := strings.SplitN(e.Name(), "@", 3)
		held = append(held, f[0]+" "+f[1]+"/"+f[2])
	}
	slices.Sort(held)
	return held
}

func (p *Plugins) must(err error) {
	p.tb.Helper()
	if err != nil {
		p.tb.Fatalf("stub plugins: %v", err)
	}
}

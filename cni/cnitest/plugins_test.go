package cnitest_test

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/cni/cnitest"
)

// call runs a stub like a runtime would.
func call(ctx context.Context, p *cnitest.Plugins, name, command string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(p.Dir(), name))
	cmd.Env = []string{
		"PATH=/usr/bin:/bin", "CNI_COMMAND=" + command, "CNI_CONTAINERID=c1", "CNI_IFNAME=eth0", "CNI_NETNS=/run/netns/c1",
		"CNI_ARGS=A=1;B=2", "CNI_PATH=" + p.Dir(),
	}
	cmd.Stdin = strings.NewReader("{\n \"name\": \"it's\"\n}")
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	return out.String(), err
}

func TestLifeOfAStub(t *testing.T) {
	p := cnitest.New(t, "bridge")
	steps := []struct {
		command, want string
		fails         bool
		held          []string
	}{
		{"CHECK", `{"cniVersion":"1.0.0","code":3,"msg":"eth0 of c1 is not attached"}` + "\n", true, nil},
		{"ADD", cnitest.DefaultResult, false, []string{"bridge c1/eth0"}},
		{"ADD", `{"cniVersion":"1.0.0","code":100,"msg":"eth0 of c1 is attached already"}` + "\n", true, []string{"bridge c1/eth0"}},
		{"CHECK", "", false, []string{"bridge c1/eth0"}},
		{"DEL", "", false, nil},
		{"DEL", "", false, nil},
		{"GC", "", false, nil},
		{"STATUS", "", false, nil},
		{"VERSION", `{"cniVersion":"1.1.0","supportedVersions":["0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}` + "\n", false, nil},
		{"JUMP", `{"cniVersion":"1.0.0","code":4,"msg":"CNI_COMMAND is JUMP"}` + "\n", true, nil},
	}
	for _, step := range steps {
		out, err := call(t.Context(), p, "bridge", step.command)
		if out != step.want || (err != nil) != step.fails {
			t.Errorf("%s printed %q, %v; want %q", step.command, out, err, step.want)
		}
		if diff := cmp.Diff(step.held, p.Held()); diff != "" {
			t.Errorf("held after %s (-want +got):\n%s", step.command, diff)
		}
	}
	want := cnitest.Call{
		Plugin: "bridge", Command: "CHECK", ContainerID: "c1", IfName: "eth0", NetNS: "/run/netns/c1", Args: "A=1;B=2",
		Path: p.Dir(), Config: "{\n \"name\": \"it's\"\n}",
	}
	calls := p.Calls()
	if len(calls) != len(steps) {
		t.Fatalf("%d calls are noted, want %d", len(calls), len(steps))
	}
	if diff := cmp.Diff(want, calls[0]); diff != "" {
		t.Errorf("first call (-want +got):\n%s", diff)
	}
	p.Forget()
	if left := p.Calls(); len(left) > 0 {
		t.Errorf("calls after Forget: %v", left)
	}
}

func TestBehaviours(t *testing.T) {
	tests := []struct {
		name, want string
		b          cnitest.Behaviour
		code       int
	}{
		{"fails", `{"cniVersion":"1.0.0","code":11,"details":"the stub was told to","msg":"it's \"full\""}`, cnitest.Fail(11, `it's "full"`), 1},
		{"prints", "%s $HOME `x`\n", cnitest.Print("%s $HOME `x`\n"), 0},
		{"exits", "", cnitest.Behaviour{Exit: 42}, 42},
		{"once", "a", cnitest.Behaviour{Stdout: "a", Once: true}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := cnitest.New(t, "a")
			p.On("a", "ADD", test.b)
			out, err := call(t.Context(), p, "a", "ADD")
			code := 0
			if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Run returns it bare
				code = exit.ExitCode()
			}
			if out != test.want || code != test.code || len(p.Held()) != 1 {
				t.Errorf("printed %q, exit code %d, holds %v; want %q, %d and one thing", out, code, p.Held(), test.want, test.code)
			}
			if !test.b.Once {
				p.Off("a", "ADD")
				p.Off("a", "ADD")
			}
			if _, err := call(t.Context(), p, "a", "DEL"); err != nil {
				t.Error(err)
			}
			if out, err := call(t.Context(), p, "a", "ADD"); err != nil || out != cnitest.DefaultResult {
				t.Errorf("afterwards it printed %q, %v", out, err)
			}
		})
	}
}

func TestHang(t *testing.T) {
	p := cnitest.New(t, "a")
	p.On("a", "DEL", cnitest.Hang())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := call(ctx, p, "a", "DEL"); done <- err }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(p.Calls()) == 0 {
		<-tick.C
	}
	select {
	case err := <-done:
		t.Errorf("it ended: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("it ended well")
	}
}

// What a plugin prints that reports an error; in a test it goes to Plugins.On.
func ExampleFail() {
	b := cnitest.Fail(11, "no addresses left")
	fmt.Println(b.Stdout)
	fmt.Println("exit code", b.Exit)
	// Output:
	// {"cniVersion":"1.0.0","code":11,"details":"the stub was told to","msg":"no addresses left"}
	// exit code 1
}

package crictl

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// patience is how long anything may take on a busy machine.
const patience = 30 * time.Second

// session is crictl with a runtime that runs nothing.
type session struct {
	*testing.T
	binary, endpoint, dir string
}

func newSession(t *testing.T) *session {
	t.Helper()
	testnode.NeedTools(t)
	binary, err := testnode.Tool(t.Context(), "crictl")
	if err != nil {
		t.Fatal(err)
	}
	// A temporary folder of the test can have a name too long for a socket.
	dir, err := os.MkdirTemp("", "crictl") //nolint:usetesting // See above.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s := &session{T: t, binary: binary, endpoint: "unix://" + filepath.Join(dir, "cri.sock"), dir: dir}
	s.startRuntime()
	return s
}

// startRuntime builds and runs examples/fakecri until the test ends.
func (s *session) startRuntime() {
	s.Helper()
	program := filepath.Join(s.dir, "fakecri")
	if out, err := exec.CommandContext(s.Context(), "go", "build", "-o", program, "../../examples/fakecri").CombinedOutput(); err != nil {
		s.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.Command(program, "--socket", filepath.Join(s.dir, "cri.sock"), "--life", "short=exit:3") //nolint:noctx // It ends by a signal.
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			s.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			s.Errorf("the runtime ended with %v:\n%s", err, out.String())
		}
	})
	s.eventually("the runtime answers", func() error { _, err := s.try("", "version"); return err })
}

// try runs crictl with an input.
func (s *session) try(stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(s.Context(), s.binary, append([]string{"--runtime-endpoint", s.endpoint, "--timeout", "20s"}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("crictl %s: %w: %s", strings.Join(args, " "), err, errOut.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// crictl is try, and the test fails with the command.
func (s *session) crictl(args ...string) string {
	s.Helper()
	out, err := s.try("", args...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

func (s *session) eventually(what string, check func() error) {
	s.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	s.Fatalf("%s: not after %v: %v", what, patience, err)
}

func (s *session) wantPart(what, got, want string) {
	s.Helper()
	if !strings.Contains(got, want) {
		s.Errorf("%s says\n%s\nwithout %q", what, got, want)
	}
}

func (s *session) file(name, text string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

// pod runs a pod and returns its configuration's file and its id.
func (s *session) pod() (config, id string) {
	s.Helper()
	config = s.file("pod.json", fmt.Sprintf(`{"metadata": {"name": "web", "namespace": "default", "uid": "0b1c"},
		"hostname": "web-0", "log_directory": %q, "linux": {}}`, filepath.Join(s.dir, "logs")))
	return config, s.crictl("runp", config)
}

// container starts a container.
func (s *session) container(pod, podConfig, name string) (id string) {
	s.Helper()
	config := s.file(name+".json", fmt.Sprintf(`{"metadata": {"name": %q}, "image": {"image": "web:1"}, "log_path": "%s/0.log", "linux": {}}`, name, name))
	id = s.crictl("create", pod, config, podConfig)
	s.crictl("start", id)
	return id
}

func TestCrictl(t *testing.T) {
	s := newSession(t)
	s.wantPart("version", s.crictl("version"), "runtimetest")
	s.wantPart("info", s.crictl("info"), "NetworkReady")
	s.crictl("pull", "web:1")
	s.wantPart("images", s.crictl("images"), "docker.io/library/web")
	s.wantPart("inspecti", s.crictl("inspecti", "web:1"), "docker.io/library/web:1")
	s.wantPart("imagefsinfo", s.crictl("imagefsinfo"), "mountpoint")

	podConfig, pod := s.pod()
	app, short := s.container(pod, podConfig, "app"), s.container(pod, podConfig, "short")
	s.wantPart("pods", s.crictl("pods"), "Ready")
	s.wantPart("inspectp", s.crictl("inspectp", pod), "10.88.0.")
	s.wantPart("ps", s.crictl("ps"), "app")
	s.eventually("the short container has exited", func() error {
		if out := s.crictl("ps", "-a", "--state", "exited"); !strings.Contains(out, "short") {
			return errors.New(out)
		}
		return nil
	})
	s.wantPart("inspect", s.crictl("inspect", short), `"exitCode": 3`)
	s.wantPart("logs", s.crictl("logs", app), "hello from app")
	s.wantPart("stats", s.crictl("stats", "-a"), "app")
	s.wantPart("statsp", s.crictl("statsp"), "web")

	s.crictl("stop", app)
	s.wantPart("inspect", s.crictl("inspect", app), `"CONTAINER_EXITED"`)
	s.crictl("rm", app)
	s.crictl("stopp", pod)
	s.wantPart("pods", s.crictl("pods"), "NotReady")
	s.crictl("rmp", pod)
	s.crictl("rmi", "web:1")
	for _, kind := range []string{"pods", "ps", "images"} {
		if out := s.crictl(kind, "-q"); out != "" {
			t.Errorf("%s are left: %s", kind, out)
		}
	}
}

func TestCrictlStreams(t *testing.T) {
	s := newSession(t)
	s.crictl("pull", "web:1")
	podConfig, pod := s.pod()
	app := s.container(pod, podConfig, "app")
	for _, sync := range []string{"--sync", "--tty=false"} {
		s.wantPart("exec "+sync, s.crictl("exec", sync, app, "echo", "a", "b"), "a b")
		if _, err := s.try("", "exec", sync, app, "exit", "3"); err == nil || !strings.Contains(err.Error(), "3") {
			t.Errorf("exec %s: error is %v, want exit code 3", sync, err)
		}
	}
	out, err := s.try("one\ntwo\n", "exec", "-i", app, "cat")
	if err != nil || out != "one\ntwo" {
		t.Errorf("cat gave back %q, error %v", out, err)
	}
	if _, err := s.try("", "exec", "--sync", app, "no-such-command"); err == nil {
		t.Error("a command was run that is not there")
	}
}

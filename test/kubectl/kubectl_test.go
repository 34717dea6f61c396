package kubectl_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestKubectl(t *testing.T) {
	n := start(t)
	t.Run("logs", func(t *testing.T) { logs(n.with(t)) })
	t.Run("logs that are followed", func(t *testing.T) { follow(n.with(t)) })
	t.Run("pages of the node", func(t *testing.T) { pages(n.with(t)) })
	for _, websockets := range []string{"true", "false"} {
		env := []string{"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=" + websockets, "KUBECTL_PORT_FORWARD_WEBSOCKETS=" + websockets}
		t.Run("websockets="+websockets, func(t *testing.T) {
			t.Run("exec", func(t *testing.T) { execute(n.with(t, env...)) })
			t.Run("terminal", func(t *testing.T) { terminal(n.with(t, env...)) })
			t.Run("attach", func(t *testing.T) { attach(n.with(t, env...)) })
			t.Run("cp", func(t *testing.T) { copyFiles(n.with(t, env...)) })
			t.Run("port-forward", func(t *testing.T) { forward(n.with(t, env...)) })
			t.Run("debug", func(t *testing.T) { debug(n.with(t, env...), "look-"+websockets) })
		})
	}
}

// logs asks for logs that are there.
func logs(n *node) {
	for _, tt := range []struct {
		args, want string
	}{
		{"logs box", "line 1\nline 2\nline 3\n"},
		{"logs box --tail=1", "line 3\n"},
		{"logs box --tail=0", ""},
		{"logs box --limit-bytes=9", "line 1\nli"},
		{"logs box --since=1h", "line 1\nline 2\nline 3\n"},
		{"logs box --since-time=2126-01-02T15:04:05Z", ""},
		{"logs again", "second life\n"},
		{"logs again --previous", "first life\n"},
		{"logs -l nobody=here", ""},
	} {
		n.t.Run(tt.args, func(t *testing.T) {
			if got := n.with(t).run("", strings.Fields(tt.args)...); got != tt.want {
				t.Errorf("kubectl %s says %q, want %q", tt.args, got, tt.want)
			}
		})
	}
	if got := n.run("", "logs", "box", "--timestamps", "--tail=1"); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\S+ line 3\n$`).MatchString(got) {
		n.t.Errorf("a line with its time is %q", got)
	}
	if r := n.try("", "logs", "box", "--previous"); r.code == 0 || !strings.Contains(r.err, `previous terminated container "app" in pod "box" not found`) {
		n.t.Errorf("the log of a life that never was: %+v", r)
	}
}

// follow reads a log while it grows, up to the end of its pod.
func follow(n *node) {
	pod := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "talker"}, "spec": {"restartPolicy": "Never", "automountServiceAccountToken": false, "containers": [
		{"name": "app", "image": "` + boxRef + `", "args": ["sh", "-c", "echo begin; while ! busybox test -e /go; do busybox sleep 0.1; done; echo end"]}]}}`
	n.run(pod, "apply", "-f", "-")
	n.run("", "wait", "--for=condition=Ready", "pod", "talker", "--timeout=4m")
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	cmd := n.command(ctx, "logs", "-f", "talker")
	out, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if got, err := lines.ReadString('\n'); err != nil || got != "begin\n" {
		n.t.Errorf("the first line is %q (%v), want begin", got, err)
	}
	n.run("", "exec", "talker", "--", "busybox", "touch", "/go")
	rest, err := io.ReadAll(lines)
	if err != nil || string(rest) != "end\n" {
		n.t.Errorf("the rest is %q (%v), want end", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		n.t.Errorf("kubectl logs -f: %v", err)
	}
	n.run("", "delete", "pod", "talker")
}

// pages asks the node through the API server.
func pages(n *node) {
	const node = "/api/v1/nodes/node-0/proxy"
	for path, want := range map[string]string{
		"/healthz":                              "ok",
		"/configz":                              `{"kubeletconfig":{`,
		"/pods":                                 `"kind":"PodList"`,
		"/runningpods/":                         `"name":"box"`,
		"/logs/":                                "<pre>",
		"/containerLogs/default/box/app":        "line 1",
		"/run/default/box/app?cmd=echo%20hello": "hello",
	} {
		args := []string{"get", "--raw", node + path}
		if strings.HasPrefix(path, "/run/") {
			args[0] = "create"
			args = append(args, "-f", "-")
		}
		if got := n.run("", args...); !strings.Contains(got, want) {
			n.t.Errorf("%s says %.300q, want %q", path, got, want)
		}
	}
	var pods corev1.PodList
	if err := json.Unmarshal([]byte(n.run("", "get", "--raw", node+"/pods")), &pods); err != nil || len(pods.Items) < 4 {
		n.t.Errorf("the kubelet shows %d pods (%v)", len(pods.Items), err)
	}
}

// execute runs commands in a container.
func execute(n *node) {
	if got := n.run("", "exec", "box", "--", "echo", "hello", "you"); got != "hello you\n" {
		n.t.Errorf("output is %q", got)
	}
	if r := n.try("", "exec", "box", "-c", "app", "--", "sh", "-c", "echo out; echo oh >&2; exit 7"); r.code != 7 || r.out != "out\n" || !strings.HasPrefix(r.err, "oh\n") {
		n.t.Errorf("a command that fails: %+v, want exit code 7", r)
	}
	big := strings.Repeat("0123456789abcde\n", 1<<16)
	if got := n.run(big, "exec", "-i", "box", "--", "cat"); got != big {
		n.t.Errorf("a MiB there and back is %d bytes", len(got))
	}
	if r := n.try("", "exec", "box", "--", "no-such-program"); r.code == 0 || !strings.Contains(r.err, "no-such-program") {
		n.t.Errorf("a program that is not there: %+v", r)
	}
	if r := n.try("", "exec", "box", "-c", "none", "--", "sh"); r.code == 0 || !strings.Contains(r.err, "none") {
		n.t.Errorf("a container that is not there: %+v", r)
	}
}

// terminal runs a shell in a terminal.
func terminal(n *node) {
	cmd := n.command(n.t.Context(), "exec", "-it", "box", "--", "sh", "-c", `test -t 0 && test -t 1 && while test -z "$(stty size 2>/dev/null)"; do sleep 0.1; done; stty size; read x; echo got $x`)
	// script(1) gives kubectl a terminal.
	quoted := make([]string, len(cmd.Args))
	for i, a := range cmd.Args {
		quoted[i] = "'" + a + "'"
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	in := exec.CommandContext(ctx, "script", "-qefc", "stty rows 31 cols 97; exec "+strings.Join(quoted, " "), "/dev/null")
	in.Env = cmd.Env
	in.Stdin = strings.NewReader("hello\n")
	out, err := in.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "31 97\r\n") || !strings.Contains(string(out), "got hello\r\n") {
		n.t.Errorf("a shell in a terminal of 31 rows and 97 columns: %v\n%q", err, out)
	}
}

// attach speaks with a container's first process.
func attach(n *node) {
	word := "hello " + n.t.Name()
	if got := n.speak(word+"\n", word, "attach", "-i", "reader"); !strings.HasPrefix(got, word+"\n") {
		n.t.Errorf("the container said %q, want %q", got, word)
	}
}

// speak gives kubectl its input and returns what it prints, up to a line that has the last
// word. Its input stays open until then: a runtime ends the output of an attached client with
// its input.
func (n *node) speak(input, last string, args ...string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	cmd := n.command(ctx, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}()
	if _, err := io.WriteString(in, input); err != nil {
		n.t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), last) {
			break
		}
	}
	return said.String()
}

// copyFiles copies a folder to a container and back.
func copyFiles(n *node) {
	dir := n.t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.MkdirAll(filepath.Join(there, "sub"), 0o755); err != nil {
		n.t.Fatal(err)
	}
	want := map[string]string{"a": "hello", "sub/b": strings.Repeat("x", 1<<20)}
	for name, text := range want {
		if err := os.WriteFile(filepath.Join(there, name), []byte(text), 0o600); err != nil {
			n.t.Fatal(err)
		}
	}
	in := filepath.Join("/tmp", filepath.Base(n.t.Name())+filepath.Base(filepath.Dir(n.t.Name())))
	n.run("", "cp", there, "box:"+in)
	back := filepath.Join(dir, "back")
	n.run("", "cp", "box:"+in, back)
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(back, name)); err != nil || string(got) != text {
			n.t.Errorf("%s came back with %d bytes (%v), want %d", name, len(got), err, len(text))
		}
	}
}

// forward connects with a port of a pod.
func forward(n *node) {
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	cmd := n.command(ctx, "port-forward", "pod/web", ":8080")
	out, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	port := regexp.MustCompile(`127\.0\.0\.1:(\d+) -> 8080`).FindStringSubmatch(line)
	if port == nil {
		n.t.Fatalf("kubectl port-forward says %q (%v)", line, err)
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: n.Plane().Dial, DisableKeepAlives: true}}
	for range 3 {
		resp, err := client.Get("http://127.0.0.1:" + port[1]) //nolint:noctx // the client has a timeout
		if err != nil {
			n.t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || strings.TrimSpace(string(body)) != "web" {
			n.t.Errorf("the pod says %q (%v), want its name", body, err)
		}
	}
}

// debug adds a container to a pod. What it does comes by its input, so that it does nothing
// before kubectl sees it.
func debug(n *node, name string) {
	out := n.speak("busybox wget -qO- http://127.0.0.1:8080; echo; busybox ps; echo done; busybox sleep 100000\n", "done",
		"debug", "web", "-i", "-c", name, "--image="+boxRef, "--image-pull-policy=Never", "--target=app", "--quiet", "--", "busybox", "sh")
	if !strings.Contains(out, "web\n") || !strings.Contains(out, "/web") {
		n.t.Errorf("a container beside the server sees:\n%s\n%s", out, n.run("", "get", "pod", "web", "-o", "jsonpath={.status.ephemeralContainerStatuses}"))
	}
	if got := n.run("", "logs", "web", "-c", name); !strings.Contains(got, "web\n") {
		n.t.Errorf("its log is %q", got)
	}
}

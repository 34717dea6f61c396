package streaming_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/runtime/runtimetest/streaming"
)

// The channels of the protocol v4.channel.k8s.io.
const (
	stdin = iota
	stdout
	stderr
	status
)

// pod is a running pod with one container.
type pod struct {
	client             *runtime.Client
	sandbox, container string
}

func newPod(t *testing.T, cfg runtimetest.Config, life runtimetest.Life) pod {
	t.Helper()
	s := runtimetest.Start(t, cfg)
	streaming.Start(t, s)
	s.SetLives("app", life)
	p := pod{client: s.Client(t)}
	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "0b1c"}}
	var err error
	if p.sandbox, err = p.client.RunPodSandbox(t.Context(), config, ""); err != nil {
		t.Fatal(err)
	}
	image := &runtimeapi.ImageSpec{Image: "web"}
	if _, err = p.client.PullImage(t.Context(), image, nil, nil); err != nil {
		t.Fatal(err)
	}
	p.container, err = p.client.CreateContainer(t.Context(), p.sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: image,
	}, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.client.StartContainer(t.Context(), p.container); err != nil {
		t.Fatal(err)
	}
	return p
}

// connect opens the WebSocket behind a URL.
func connect(t *testing.T, resp interface{ GetUrl() string }, err error) *websocket.Conn {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := websocket.NewConfig(strings.Replace(resp.GetUrl(), "http", "ws", 1), "http://localhost")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Protocol = []string{"v4.channel.k8s.io"}
	c, err := cfg.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

func send(t *testing.T, c *websocket.Conn, channel byte, text string) {
	t.Helper()
	if err := websocket.Message.Send(c, append([]byte{channel}, text...)); err != nil {
		t.Fatal(err)
	}
}

// receive collects what comes until the connection ends or until channel has said text.
func receive(t *testing.T, c *websocket.Conn, channel byte, text string) map[byte]string {
	t.Helper()
	got := make(map[byte]string)
	for text == "" || !strings.Contains(got[channel], text) {
		var frame []byte
		err := websocket.Message.Receive(c, &frame)
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		got[frame[0]] += string(frame[1:])
	}
	return got
}

func TestExec(t *testing.T) {
	p := newPod(t, runtimetest.Config{Exec: func(_ context.Context, e runtimetest.Exec) runtimetest.ExecResult {
		line, err := bufio.NewReader(e.Stdin).ReadString('\n')
		fmt.Fprintf(e.Stdout, "%v got %q, %v\n", e.Cmd, line, err)
		return runtimetest.ExecResult{Code: 3, Stdout: "bye", Stderr: "oh"}
	}}, runtimetest.Life{})
	resp, err := p.client.Exec(t.Context(), &runtimeapi.ExecRequest{
		ContainerId: p.container, Cmd: []string{"sh", "-x"}, Stdin: true, Stdout: true, Stderr: true,
	})
	c := connect(t, resp, err)
	send(t, c, stdin, "hello\n")
	got := receive(t, c, status, "")
	if got[stdout] != "[sh -x] got \"hello\\n\", <nil>\nbye" || got[stderr] != "oh" {
		t.Errorf("output is %q, errors %q", got[stdout], got[stderr])
	}
	var st struct {
		Reason  string
		Details struct{ Causes []struct{ Message string } }
	}
	if err := json.Unmarshal([]byte(got[status]), &st); err != nil {
		t.Fatalf("%v in %q", err, got[status])
	}
	if st.Reason != "NonZeroExitCode" || len(st.Details.Causes) != 1 || st.Details.Causes[0].Message != "3" {
		t.Errorf("status is %s, want exit code 3", got[status])
	}

	again, err := http.Get(resp.GetUrl()) //nolint:noctx // A test on its own machine.
	if err != nil {
		t.Fatal(err)
	}
	again.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if again.StatusCode != http.StatusNotFound {
		t.Errorf("the second use of a URL is %s, want 404", again.Status)
	}
}

func TestAttach(t *testing.T) {
	p := newPod(t, runtimetest.Config{}, runtimetest.Life{Echo: true})
	resp, err := p.client.Attach(t.Context(), &runtimeapi.AttachRequest{
		ContainerId: p.container, Stdin: true, Stdout: true, Stderr: true,
	})
	c := connect(t, resp, err)
	send(t, c, stdin, "hello\n")
	if got := receive(t, c, stdout, "\n"); got[stdout] != "hello\n" {
		t.Errorf("the container wrote %q, want hello", got[stdout])
	}
	if err := p.client.StopContainer(t.Context(), p.container, 0); err != nil {
		t.Fatal(err)
	}
	// The end of the container is the end of the stream.
	receive(t, c, status, "")
}

func TestPortForward(t *testing.T) {
	for _, c := range []struct {
		name    string
		forward func(context.Context, *runtimeapi.PodSandboxConfig, int32, io.ReadWriteCloser) error
		channel byte
		want    string
	}{
		{"answered", func(_ context.Context, pod *runtimeapi.PodSandboxConfig, port int32, conn io.ReadWriteCloser) error {
			line, err := bufio.NewReader(conn).ReadString('\n')
			fmt.Fprintf(conn, "%s:%d got %q", pod.GetMetadata().GetName(), port, line)
			return err
		}, 0, `web:80 got "hello\n"`},
		{"refused", nil, 1, "connection refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPod(t, runtimetest.Config{Forward: c.forward}, runtimetest.Life{})
			resp, err := p.client.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: p.sandbox, Port: []int32{80}})
			conn := connect(t, resp, err)
			if c.forward != nil {
				send(t, conn, 0, "hello\n")
			}
			if got := receive(t, conn, c.channel, c.want); !strings.Contains(got[c.channel], c.want) {
				t.Errorf("channels said %q, want %q on %d", got, c.want, c.channel)
			}
		})
	}
}

func TestStreamsEndWithTheServer(t *testing.T) {
	rt := runtimetest.Start(t, runtimetest.Config{})
	s, err := streaming.New(t.Context(), rt)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := rt.Client(t).RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "0b1c"},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Client(t).PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: p}); !errors.Is(err, runtime.ErrUnimplemented) {
		t.Errorf("error is %v, want ErrUnimplemented without streams", err)
	}
}

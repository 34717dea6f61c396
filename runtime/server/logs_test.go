package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/runtime/server"
)

func TestParseLogOptions(t *testing.T) {
	all, stdout := corev1.LogStreamAll, corev1.LogStreamStdout
	for _, tt := range []struct {
		name, query string
		want        *corev1.PodLogOptions
		// fault is part of the error.
		fault string
	}{
		{name: "nothing", want: &corev1.PodLogOptions{Stream: &all}},
		{
			name: "much", query: "follow=true&previous=1&timestamps&tailLines=5&limitBytes=10&sinceSeconds=60&stream=All&container=app",
			want: &corev1.PodLogOptions{
				Container: "app", Follow: true, Previous: true, Timestamps: true,
				TailLines: new(int64(5)), LimitBytes: new(int64(10)), SinceSeconds: new(int64(60)), Stream: &all,
			},
		},
		{name: "no", query: "follow=false&previous=0&timestamps=False", want: &corev1.PodLogOptions{Stream: &all}},
		{name: "no lines", query: "tailLines=0", want: &corev1.PodLogOptions{TailLines: new(int64(0)), Stream: &all}},
		{name: "old name", query: "tail=7&tailLines=9", want: &corev1.PodLogOptions{TailLines: new(int64(7)), Stream: &all}},
		{name: "old name for all", query: "tail=all&tailLines=9", want: &corev1.PodLogOptions{Stream: &all}},
		{
			name: "time", query: "sinceTime=2026-01-02T15:04:05%2B01:00",
			want: &corev1.PodLogOptions{SinceTime: &metav1.Time{Time: time.Date(2026, 1, 2, 14, 4, 5, 0, time.UTC)}, Stream: &all},
		},
		{name: "no time", query: "sinceTime=&sinceTime=x", want: &corev1.PodLogOptions{Stream: &all}},
		{name: "stream", query: "stream=Stdout", want: &corev1.PodLogOptions{Stream: &stdout}},
		{name: "stream unknown", query: "stream=stdout", fault: `stream is "stdout": want All, Stdout or Stderr`},
		{name: "stream and tail", query: "stream=Stderr&tailLines=1", fault: "tailLines and a stream of its own exclude each other"},
		{name: "two times", query: "sinceTime=2026-01-02T15:04:05Z&sinceSeconds=1", fault: "sinceTime and sinceSeconds exclude each other"},
		{name: "bad time", query: "sinceTime=yesterday", fault: "sinceTime is not understood: want a time like"},
		{name: "less than nothing", query: "tailLines=-1", fault: "tailLines is -1: want 0 or more"},
		{name: "no bytes", query: "limitBytes=0", fault: "limitBytes is 0: want 1 or more"},
		{name: "no seconds", query: "sinceSeconds=0", fault: "sinceSeconds is 0: want 1 or more"},
		{name: "too many", query: "tailLines=99999999999999999999", fault: "tailLines is not understood: want a number"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q, err := url.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := server.ParseLogOptions(q)
			if tt.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("error is %v, want %s", err, tt.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseLogOptions(f *testing.F) {
	for _, q := range []string{"", "follow=1&tailLines=5", "tail=all", "sinceTime=2026-01-02T15:04:05Z", "stream=Stdout&limitBytes=1", "tailLines=%zz", "sinceSeconds=-9"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		o, err := server.ParseLogOptions(q)
		if err != nil {
			return
		}
		switch {
		case o.Stream == nil,
			o.TailLines != nil && *o.TailLines < 0,
			o.LimitBytes != nil && *o.LimitBytes < 1,
			o.SinceSeconds != nil && (*o.SinceSeconds < 1 || o.SinceTime != nil):
			t.Errorf("%q gives %+v", query, o)
		}
	})
}

// write writes the log of a run: numbered lines, each second one to stderr.
func (n *node) write(t *testing.T, attempt, lines int) {
	t.Helper()
	var text strings.Builder
	for i := range lines {
		stream := "stdout"
		if i%2 == 1 {
			stream = "stderr"
		}
		fmt.Fprintf(&text, "%s %s F line %d\n", time.Now().Format(time.RFC3339Nano), stream, i+1)
	}
	file := filepath.Join(n.root, "default_web_"+uid, "app", fmt.Sprintf("%d.log", attempt))
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLogs(t *testing.T) {
	n := newNode(t, runtimetest.Config{})
	n.write(t, 0, 4)
	if err := n.client.StopContainer(t.Context(), bare(n.pod), 0); err != nil {
		t.Fatal(err)
	}
	n.start(t, 1)
	n.write(t, 1, 2)
	a := n.serve(t)
	for _, tt := range []struct {
		name, query, want string
		code              int
	}{
		{name: "all", want: "line 1\nline 2\n"},
		{name: "previous", query: "?previous=true", want: "line 1\nline 2\nline 3\nline 4\n"},
		{name: "last", query: "?previous=true&tailLines=1", want: "line 4\n"},
		{name: "none", query: "?tailLines=0", want: ""},
		{name: "bytes", query: "?limitBytes=9", want: "line 1\nli"},
		{name: "of a stream", query: "?previous=true&stream=Stderr", want: "line 2\nline 4\n"},
		{name: "of the last hour", query: "?sinceSeconds=3600", want: "line 1\nline 2\n"},
		{name: "of ages", query: "?sinceSeconds=9223372036854775807", want: "line 1\nline 2\n"},
		{name: "of the future", query: "?sinceTime=2126-01-02T15:04:05Z", want: ""},
		{name: "followed to its end", query: "?previous=true&follow=true", want: "line 1\nline 2\nline 3\nline 4\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := a.with(t)
			resp, body := a.do(http.MethodGet, "/containerLogs/default/web/app"+tt.query, nil)
			if resp.StatusCode != http.StatusOK || body != tt.want {
				t.Errorf("log is %s %q, want %q", resp.Status, body, tt.want)
			}
			if got := resp.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
				t.Errorf("Content-Type is %s", got)
			}
		})
	}
	first, _, _ := strings.Cut(a.get("/containerLogs/default/web/app?timestamps=true", 200), " ")
	if _, err := time.Parse("2006-01-02T15:04:05.000000000Z07:00", first); err != nil {
		t.Errorf("a line with a time: %v", err)
	}
}

// bare is the id of the pod's container.
func bare(pod *corev1.Pod) string {
	return strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "fake://")
}

func TestLogIsFollowed(t *testing.T) {
	n := newNode(t, runtimetest.Config{}, runtimetest.Life{Echo: true})
	a := n.serve(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+a.host+"/containerLogs/default/web/app?follow=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	// The answer begins before there is a line.
	resp, err := a.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	attached, feed := io.Pipe()
	t.Cleanup(func() { feed.Close() })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- n.rt.AttachStream(ctx, bare(n.pod), runtimetest.Attach{Stdin: attached}) }()
	out := bufio.NewReader(resp.Body)
	for _, line := range []string{"one\n", "two\n"} {
		if _, err := io.WriteString(feed, line); err != nil {
			t.Fatal(err)
		}
		if got, err := out.ReadString('\n'); err != nil || got != line {
			t.Fatalf("got %q (%v), want %q", got, err, line)
		}
	}
	if err := n.client.StopContainer(t.Context(), bare(n.pod), 0); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("after the container's end: %q, %v", rest, err)
	}
	stop()
	<-ended
}

func TestWhyThereIsNoLog(t *testing.T) {
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	ended := func(id string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: id}}
	}
	n := newNode(t, runtimetest.Config{})
	a := n.serve(t)
	running := n.pod.Status.ContainerStatuses[0]
	for _, tt := range []struct {
		name, query string
		status      corev1.ContainerStatus
		want        string
	}{
		{name: "begins", status: corev1.ContainerStatus{State: waiting("ContainerCreating")}, want: "is waiting to start: ContainerCreating"},
		{name: "no image", status: corev1.ContainerStatus{State: waiting("ErrImagePull")}, want: "is waiting to start: image can't be pulled"},
		{name: "no image again", status: corev1.ContainerStatus{State: waiting("ImagePullBackOff")}, want: "is waiting to start: trying and failing to pull image"},
		{name: "nothing said", want: "is waiting to start - no logs yet"},
		{name: "never ran", status: corev1.ContainerStatus{State: ended("")}, want: "is terminated"},
		{name: "no previous", query: "?previous=true", status: running, want: "not found"},
		{name: "forgotten", status: corev1.ContainerStatus{State: ended("fake://none")}, want: "unable to retrieve container logs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := a.with(t)
			tt.status.Name = "app"
			n.pod.Status.ContainerStatuses = []corev1.ContainerStatus{tt.status}
			if got := a.get("/containerLogs/default/web/app"+tt.query, http.StatusBadRequest); !has(got, `container "app"`, tt.want) {
				t.Errorf("answer is %q, want %q in it", got, tt.want)
			}
		})
	}
}

// What a container puts where its log is does not show files of the machine.
func TestPlantedLinksAreNotFollowed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		plant func(folder, secret string) error
	}{
		{"in place of the log", func(folder, secret string) error {
			log := filepath.Join(folder, "app", "0.log")
			if err := os.Remove(log); err != nil {
				return err
			}
			return os.Symlink(secret, log)
		}},
		{"in place of the folder", func(folder, secret string) error {
			if err := os.RemoveAll(filepath.Join(folder, "app")); err != nil {
				return err
			}
			return os.Symlink(filepath.Dir(secret), filepath.Join(folder, "app"))
		}},
		{"a pipe", func(folder, _ string) error {
			log := filepath.Join(folder, "app", "0.log")
			if err := os.Remove(log); err != nil {
				return err
			}
			return mkfifo(log)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, runtimetest.Config{})
			n.write(t, 0, 1)
			secret := filepath.Join(t.TempDir(), "0.log")
			if err := os.WriteFile(secret, []byte("2026-01-02T15:04:05Z stdout F root:x:0:0\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := tt.plant(filepath.Join(n.root, "default_web_"+uid), secret); err != nil {
				t.Fatal(err)
			}
			a := n.serve(t)
			if got := a.get("/containerLogs/default/web/app", http.StatusBadRequest); strings.Contains(got, "root") {
				t.Errorf("answer is %q", got)
			}
		})
	}
}

func TestLogsElsewhereAreRefused(t *testing.T) {
	n := newNode(t, runtimetest.Config{})
	n.write(t, 0, 1)
	n.root = t.TempDir()
	if got := n.serve(t).get("/containerLogs/default/web/app", http.StatusBadRequest); !has(got, "is not below "+n.root) {
		t.Errorf("answer is %q", got)
	}
}

// A log that is followed has no end because the server ends: its client sees that it was cut.
func TestFollowedLogIsCutWithTheServer(t *testing.T) {
	n := newNode(t, runtimetest.Config{}, runtimetest.Life{Echo: true})
	a := n.serve(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+a.host+"/containerLogs/default/web/app?follow=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	a.stop()
	if text, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the log %q seems to be complete", text)
	}
}

// steps is a client of which a test sees in which order it is served.
type steps struct {
	http.ResponseWriter
	took []string
}

func (s *steps) Write(b []byte) (int, error) {
	s.took = append(s.took, "write "+string(b))
	return s.ResponseWriter.Write(b)
}

func (s *steps) FlushError() error {
	s.took = append(s.took, "flush")
	return nil
}

func (s *steps) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		s.took = append(s.took, "any time")
	} else {
		s.took = append(s.took, "limited time")
	}
	return nil
}

// oneLine is a log that has one line.
type oneLine struct{}

func (oneLine) CopyLog(_ context.Context, w io.Writer, _ server.Container, _ *corev1.PodLogOptions) error {
	_, err := io.WriteString(w, "line")
	return err
}

// A client has its time for what it is sent, and a container any time between two lines.
func TestLogMayBeSilent(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	pod.Name, pod.Namespace = "web", "default"
	s, err := server.New(server.Config{Protect: server.Open, Pods: pods{pod}, Containers: server.Containers{Logs: oneLine{}}})
	if err != nil {
		t.Fatal(err)
	}
	w := &steps{ResponseWriter: httptest.NewRecorder()}
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/containerLogs/default/web/app?follow=true", http.NoBody))
	want := []string{"limited time", "write line", "flush", "any time"}
	if i := slices.Index(w.took, "limited time"); i < 0 || !slices.Equal(w.took[i:], want) {
		t.Errorf("the steps are %q, want %q at their end", w.took, want)
	}
}

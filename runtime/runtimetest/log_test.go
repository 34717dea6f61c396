package runtimetest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestLog(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{})
		w.server.SetLives("app", runtimetest.Life{
			Exit: &runtimetest.Exit{After: time.Hour},
			Log: []runtimetest.LogLine{
				{Text: "hello"},
				{After: 1500 * time.Millisecond, Text: "oh", Stream: runtimeapi.Stderr},
				{After: 2 * time.Second, Text: "half ", Partial: true},
				{After: time.Minute, Text: "a line"},
				{After: 2 * time.Hour, Text: "from the grave"},
			},
		})
		pod := sandboxConfig("web")
		pod.LogDirectory = dir
		config := containerConfig("app", 0)
		config.LogPath = "app/0.log"
		id := w.start(w.run(pod), config)

		path := filepath.Join(dir, "app", "0.log")
		elapse(10 * time.Second)
		// Without a new name the file is the same one, and nothing in it is lost.
		w.must(w.client.ReopenContainerLog(t.Context(), id))
		w.must(os.Rename(path, path+".old"))
		w.must(w.client.ReopenContainerLog(t.Context(), id))
		elapse(3 * time.Hour)
		want := map[string]string{
			path + ".old": "2000-01-01T00:00:00Z stdout F hello\n" +
				"2000-01-01T00:00:01.5Z stderr F oh\n" +
				"2000-01-01T00:00:02Z stdout P half \n",
			path: "2000-01-01T00:01:00Z stdout F a line\n",
		}
		for file, text := range want {
			got, err := os.ReadFile(file)
			w.must(err)
			if d := cmp.Diff(text, string(got)); d != "" {
				t.Errorf("%s (-want +got):\n%s", file, d)
			}
		}
	})
}

// TestLogIsInOrderAndWhole has lines of one time, and ends at the time of the last.
func TestLogIsInOrderAndWhole(t *testing.T) {
	log := []runtimetest.LogLine{
		{After: time.Second, Text: "four"},
		{Text: "one"},
		{Text: "tw", Partial: true},
		{Text: "o"},
		{Text: "three"},
		{After: time.Second, Text: "five"},
		{After: time.Second + 1, Text: "from the grave"},
	}
	for _, c := range []struct {
		name string
		life runtimetest.Life
		stop bool
		want []string
	}{
		{"ends at once", runtimetest.Exits(0, 1), false, []string{"one", "tw", "o", "three"}},
		{"ends with its last words", runtimetest.Exits(time.Second, 1), false, []string{"one", "tw", "o", "three", "four", "five"}},
		{"is killed", runtimetest.Life{}, true, []string{"one", "tw", "o", "three", "four", "five"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, runtimetest.Config{})
				c.life.Log = log
				w.server.SetLives("app", c.life)
				pod, config := sandboxConfig("web"), containerConfig("app", 0)
				pod.LogDirectory, config.LogPath = dir, "0.log"
				id := w.start(w.run(pod), config)
				if c.stop {
					elapse(time.Second)
					w.must(w.client.StopContainer(t.Context(), id, 0))
				}
				elapse(time.Minute)
				data, err := os.ReadFile(filepath.Join(dir, "0.log"))
				w.must(err)
				var got []string
				for line := range strings.Lines(string(data)) {
					got = append(got, strings.Fields(line)[3])
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Errorf("log (-want +got):\n%s", d)
				}
			})
		})
	}
}

func TestNoLogPathNoFile(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, runtimetest.Config{})
	w.server.SetLives("app", runtimetest.Life{Log: []runtimetest.LogLine{{Text: "hello"}}})
	pod := sandboxConfig("web")
	pod.LogDirectory = dir
	id := w.start(w.run(pod), containerConfig("app", 0))
	w.must(w.client.ReopenContainerLog(t.Context(), id))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("log directory has %v, error %v, want nothing", entries, err)
	}
}

func TestLogThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, runtimetest.Config{})
	pod := sandboxConfig("web")
	pod.LogDirectory = file
	sandbox := w.run(pod)
	config := containerConfig("app", 0)
	config.LogPath = "app.log"
	id, err := w.client.CreateContainer(t.Context(), sandbox, config, pod)
	w.must(err)
	if w.client.StartContainer(t.Context(), id) == nil {
		t.Error("a container started although its log directory is a file")
	}
}

package podworker

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// TestTranscripts runs the events of each testdata/*.txtar through a machine and
// compares what it answers. Rewrite them with -update, and commit the changes only
// if you understand what caused them.
//
// An event is a line "TIME EVENT [ARGUMENTS]":
//
//	0s  update a name=web source=file grace=30s phase=Failed deleted=5s
//	1s  terminate a grace=5s reason=Evicted
//	1s  orphan a grace=1s
//	2s  wake a
//	3s  retain a b
//	4s  return a [terminal] [again=5s] [error] [retry=20s]
//	5s  tick
//
// Waits have no jitter; every tick the machine wants by itself happens before the
// next event.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(archive.Files) != 2 || archive.Files[0].Name != "events" || archive.Files[1].Name != "answers" {
				t.Fatalf("%s must have the files events and answers", file)
			}
			got := transcribe(t, string(archive.Files[0].Data))
			if *update {
				archive.Files[1].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
				t.Errorf("answers differ (-want +got):\n%s", diff)
			}
		})
	}
}

// transcribe returns the answers to the events of a transcript.
func transcribe(t *testing.T, events string) string {
	t.Helper()
	m := newMachine(time.Minute, 10*time.Second, func(d time.Duration) time.Duration { return d })
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	step := func(now time.Time, line string, ev event) {
		fmt.Fprintf(&b, "%s\n", line)
		for _, e := range m.step(now, ev) {
			fmt.Fprintf(&b, "\t%s\n", e)
		}
	}
	for line := range strings.Lines(events) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			fmt.Fprintln(&b, line)
			continue
		}
		fields := strings.Fields(line)
		at, err := time.ParseDuration(fields[0])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		now := start.Add(at)
		for next := m.next(); !next.IsZero() && !next.After(now); next = m.next() {
			step(next, fmt.Sprintf("%s tick", next.Sub(start)), ticked{})
		}
		step(now, strings.Join(fields, " "), parseEvent(t, fields[1:]))
	}
	return b.String()
}

// wait is an error that names its own wait.
type wait struct{ time.Duration }

func (w wait) Error() string             { return "wait" }
func (w wait) RetryAfter() time.Duration { return w.Duration }

// parseEvent reads the words of an event after its time.
func parseEvent(t *testing.T, words []string) event {
	t.Helper()
	args := map[string]string{}
	var names []types.UID
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		args[key] = value
		names = append(names, types.UID(key))
	}
	switch words[0] {
	case "update":
		return updated{parsePod(t, names[0], args)}
	case "terminate":
		return ended{names[0], parseTermination(t, args)}
	case "orphan":
		return orphaned{parsePod(t, names[0], map[string]string{"source": "file"}), parseTermination(t, args)}
	case "wake":
		return woken{names[0]}
	case "retain":
		set := map[types.UID]struct{}{}
		for _, n := range names {
			set[n] = struct{}{}
		}
		return retained{set}
	case "return":
		return parseReturn(t, names[0], args)
	case "tick":
		return ticked{}
	}
	t.Fatalf("unknown event %q", words)
	return nil
}

// parseReturn reads the arguments of return.
func parseReturn(t *testing.T, uid types.UID, args map[string]string) returned {
	t.Helper()
	r := returned{uid: uid}
	_, r.outcome.Terminal = args["terminal"]
	r.outcome.Again = duration(t, args["again"])
	if _, ok := args["error"]; ok {
		r.err = errors.New("boom")
	}
	if s, ok := args["retry"]; ok {
		r.err = fmt.Errorf("sync: %w", wait{duration(t, s)})
	}
	return r
}

// parseTermination reads the arguments of terminate and orphan.
func parseTermination(t *testing.T, args map[string]string) Termination {
	t.Helper()
	return Termination{Grace: duration(t, args["grace"]), Reason: args["reason"]}
}

// parsePod reads the arguments of update.
func parsePod(t *testing.T, uid types.UID, args map[string]string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: string(uid), UID: uid}}
	if n, ok := args["name"]; ok {
		pod.Name = n
	}
	if s, ok := args["source"]; ok {
		pod.Annotations = map[string]string{sourceAnnotation: s}
	}
	if s, ok := args["grace"]; ok {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(duration(t, s).Seconds()))
	}
	if s, ok := args["deleted"]; ok {
		pod.DeletionTimestamp = &metav1.Time{}
		pod.DeletionGracePeriodSeconds = new(int64(duration(t, s).Seconds()))
	}
	pod.Status.Phase = corev1.PodPhase(args["phase"])
	return pod
}

// duration reads a duration, or a number of seconds; "" is 0.
func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	if s == "" {
		return 0
	}
	if n, err := strconv.Atoi(s); err == nil {
		return time.Duration(n) * time.Second
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

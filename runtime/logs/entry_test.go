package logs

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 123456789, time.UTC)
	entry := func(s Stream, partial bool, text string) Entry {
		return Entry{Time: at, Stream: s, Partial: partial, Text: []byte(text)}
	}
	const stamp = "2026-01-02T15:04:05.123456789Z"
	for _, c := range []struct {
		name, line string
		want       Entry
		// wantErr is part of the error.
		wantErr string
	}{
		{"whole", stamp + " stdout F a b", entry(Stdout, false, "a b"), ""},
		{"piece of stderr", stamp + " stderr P x", entry(Stderr, true, "x"), ""},
		{"more tags", stamp + " stdout F:x:y text", entry(Stdout, false, "text"), ""},
		{"empty", stamp + " stdout F ", entry(Stdout, false, ""), ""},
		{"empty and trimmed", stamp + " stdout F", entry(Stdout, false, ""), ""},
		{"blanks belong to the text", stamp + " stdout F   x ", entry(Stdout, false, "  x "), ""},
		{"any bytes", stamp + " stdout F \x00\xff\r", entry(Stdout, false, "\x00\xff\r"), ""},
		{"zone", "2026-01-02T16:04:05.123456789+01:00 stdout F x", entry(Stdout, false, "x"), ""},
		{"docker", `{"log":"a \"b\"\n","stream":"stderr","time":"` + stamp + `"}`, entry(Stderr, false, `a "b"`), ""},
		{"docker, piece", `{"log":"a","stream":"stdout","attrs":{"k":"v"},"time":"` + stamp + `"}`, entry(Stdout, true, "a"), ""},

		{"nothing", "", Entry{}, "no stream"},
		{"text", "plain text that is no log line", Entry{}, "no time"},
		{"NUL bytes", strings.Repeat("\x00", 100), Entry{}, "no stream"},
		{"other stream", stamp + " stdin F x", Entry{}, "no stream"},
		{"other tag", stamp + " stdout X x", Entry{}, "no tag"},
		{"tag without separator", stamp + " stdout FF x", Entry{}, "no tag"},
		{"no tag", stamp + " stdout ", Entry{}, "no tag"},
		{"day that is not", "2026-02-30T15:04:05Z stdout F x", Entry{}, "no time"},
		{"docker, cut", `{"log":"a`, Entry{}, "log line:"},
		{"docker, no log", `{"stream":"stdout","time":"` + stamp + `"}`, Entry{}, "no log"},
		{"docker, other stream", `{"log":"a","stream":"x","time":"` + stamp + `"}`, Entry{}, `stream "x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse([]byte(c.line))
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Fatalf("error is %v, want one with %q", err, c.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Text) == 0 {
				got.Text = []byte{}
			}
			equalTimes := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
			if d := cmp.Diff(c.want, got, equalTimes); d != "" {
				t.Errorf("entry (-want +got):\n%s", d)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{
		"2026-01-02T15:04:05.123456789Z stdout F text", "2026-01-02T15:04:05Z stderr P:a x",
		`{"log":"a\n","stream":"stdout","time":"2026-01-02T15:04:05Z"}`, "{", " ", "2026-02-29T23:59:60.1Z stdout F",
		"2026-01-31T15:04:05.1234567890Z stdout F x",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := Parse(line)
		if err != nil {
			return
		}
		if e.Stream != Stdout && e.Stream != Stderr {
			t.Errorf("stream is %v", e.Stream)
		}
		if line[0] == '{' {
			return
		}
		// What was read is what was written, whatever the line holds.
		if !strings.HasSuffix(string(line), string(e.Text)) {
			t.Errorf("text %q is no part of %q", e.Text, line)
		}
		stamp, _, _ := strings.Cut(string(line), " ")
		want, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil || !want.Equal(e.Time) {
			t.Errorf("time of %q is %v, time.Parse says %v, %v", stamp, e.Time, want, err)
		}
	})
}

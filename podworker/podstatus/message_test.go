package podstatus_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

func TestFileMessage(t *testing.T) {
	tests := []struct{ name, content, want string }{
		{name: "empty"},
		{name: "text", content: "bye\n", want: "bye\n"},
		{name: "too long", content: strings.Repeat("x", 5000), want: strings.Repeat("x", 4096)},
		{name: "cut in a character", content: strings.Repeat("x", 4095) + "é", want: strings.Repeat("x", 4095)},
		{name: "not text", content: "a\xff\xfeb", want: "ab"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := podstatus.FileMessage([]byte(tt.content)); got != tt.want {
				t.Errorf("message is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestLogMessage(t *testing.T) {
	line := func(tag, text string) string { return "2026-06-01T12:00:00.5Z stderr " + tag + " " + text + "\n" }
	var many, wanted strings.Builder
	for i := range 100 {
		many.WriteString(line("F", fmt.Sprintf("line %d", i)))
		if i >= 20 {
			fmt.Fprintf(&wanted, "line %d\n", i)
		}
	}
	tests := []struct{ name, log, want string }{
		{name: "empty"},
		{name: "lines", log: line("F", "a") + line("F", "b c"), want: "a\nb c\n"},
		{name: "one line in parts", log: line("P", "a") + line("P", "b") + line("F", "c"), want: "abc\n"},
		{name: "the last 80", log: many.String(), want: wanted.String()},
		{name: "the last 2048 bytes", log: line("F", strings.Repeat("x", 5000)), want: strings.Repeat("x", 2047) + "\n"},
		{name: "a line without its beginning", log: "rest of a line\n" + line("F", "a"), want: "line\na\n"},
		{name: "no lines of a log", log: "\n\nx\n", want: ""},
		{name: "an empty line", log: line("F", ""), want: "\n"},
		{name: "not text", log: line("F", "a\xffb"), want: "ab\n"},
		{name: "the end of the last line is missing", log: line("P", "one"), want: "one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := podstatus.LogMessage([]byte(tt.log)); got != tt.want {
				t.Errorf("message is %q, want %q", got, tt.want)
			}
		})
	}
}

// FuzzLogMessage checks that a message is bounded text whatever a container wrote.
func FuzzLogMessage(f *testing.F) {
	f.Add([]byte("2026-06-01T12:00:00Z stdout F hello\n"))
	f.Add([]byte("t s P a\nt s F b\n"))
	f.Add([]byte("\xff \xff P \xff"))
	f.Fuzz(func(t *testing.T, log []byte) {
		got := podstatus.LogMessage(log)
		if len(got) > 2048 || strings.Count(got, "\n") > 80 || !utf8.ValidString(got) {
			t.Errorf("message %q has %d bytes", got, len(got))
		}
		if got := podstatus.FileMessage(log); len(got) > podstatus.MaxMessage || !utf8.ValidString(got) {
			t.Errorf("message %q of a file has %d bytes", got, len(got))
		}
	})
}

package logs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/runtime/logs"
)

// Whatever a file holds, the last lines are the end of all lines, and no more than asked
// for; and a limit cuts the same text short.
func FuzzCopy(f *testing.F) {
	f.Add([]byte(line(1, "1")+line(2, "2")), uint8(1), uint8(3))
	f.Add([]byte("2026-01-02T15:04:05Z stdout P a\n2026-01-02T15:04:05Z stdout F b\nx\n\x00"), uint8(1), uint8(1))
	f.Add([]byte("2026-01-02T15:04:05Z stdout F a\n2026-01-02T15:04:05Z std"), uint8(0), uint8(0))
	f.Add([]byte(`{"log":"a\n","stream":"stdout","time":"2026-01-02T15:04:05Z"}`), uint8(9), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, lines, limit uint8) {
		file := logs.File{Root: t.TempDir(), Path: "0.log"}
		if err := os.WriteFile(filepath.Join(file.Root, file.Path), data, 0o600); err != nil {
			t.Fatal(err)
		}
		all := copyLog(t, file, logs.Options{})
		n := int64(lines)
		last := copyLog(t, file, logs.Options{Tail: &n})
		if !strings.HasSuffix(all, last) {
			t.Errorf("last %d lines of %q are %q, which is not the end of %q", n, data, last, all)
		}
		// What has no end yet is no line to count.
		if got := int64(strings.Count(last, "\n")); got > n+textLines(data) {
			t.Errorf("last %d lines of %q are %d: %q", n, data, got, last)
		}
		if limit > 0 {
			cut := copyLog(t, file, logs.Options{Limit: int64(limit)})
			if want := all[:min(len(all), int(limit))]; cut != want {
				t.Errorf("first %d bytes of %q are %q, want %q", limit, data, cut, want)
			}
		}
	})
}

// textLines is how many newlines may come from the text of entries: that of Docker may
// hold some.
func textLines(data []byte) int64 {
	return int64(strings.Count(string(data), `\n`) + strings.Count(string(data), `\u`))
}

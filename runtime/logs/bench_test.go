package logs_test

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/runtime/logs"
)

// BenchmarkCopyBesideCat copies a log of 57 MiB in lines of 112 bytes, and lets cat do the
// same; x-cat is cat's time divided by ours.
func BenchmarkCopyBesideCat(b *testing.B) {
	w := newWriter(b)
	block := strings.Repeat(line(1, strings.Repeat("x", 81)), 1<<10)
	const blocks = 512
	for range blocks {
		w.write(block)
	}
	size := float64(len(block)) * blocks / 1e6
	var ours, theirs time.Duration
	for b.Loop() {
		began := time.Now()
		if err := logs.Copy(b.Context(), io.Discard, w.file, logs.Options{}); err != nil {
			b.Fatal(err)
		}
		between := time.Now()
		cat := exec.CommandContext(b.Context(), "cat", w.file.String())
		// Not /dev/null, for which nothing would be copied.
		cat.Stdout = onlyWriter{io.Discard}
		if err := cat.Run(); err != nil {
			b.Fatal(err)
		}
		ours, theirs = ours+between.Sub(began), theirs+time.Since(between)
	}
	n := float64(b.N)
	b.ReportMetric(size*n/ours.Seconds(), "MB/s")
	b.ReportMetric(size*n/theirs.Seconds(), "cat-MB/s")
	b.ReportMetric(float64(theirs)/float64(ours), "x-cat")
}

type onlyWriter struct{ io.Writer }

// BenchmarkFollow follows a log while it is written.
func BenchmarkFollow(b *testing.B) {
	w := newWriter(b)
	block := strings.Repeat(line(1, strings.Repeat("x", 81)), 1<<10)
	got := &counter{want: int64(b.N) * 82 << 10, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ended := make(chan error)
	b.SetBytes(int64(len(block)))
	b.ResetTimer()
	go func() { ended <- logs.Copy(ctx, got, w.file, logs.Options{Follow: true}) }()
	for range b.N {
		w.write(block)
	}
	<-got.done
	b.StopTimer()
	cancel()
	<-ended
}

// counter tells when it was given all.
type counter struct {
	n, want int64
	done    chan struct{}
}

func (c *counter) Write(b []byte) (int, error) {
	if c.n += int64(len(b)); c.n == c.want {
		close(c.done)
	}
	return len(b), nil
}

func BenchmarkParse(b *testing.B) {
	text := []byte(strings.TrimSuffix(line(1, strings.Repeat("x", 81)), "\n"))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := logs.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

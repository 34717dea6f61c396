package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/lease/leasetest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// kubeconfig writes one for a server.
func kubeconfig(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u}]\n", url)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRefusesWrongFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"--kubeconfig is missing":    {"--name", "a"},
		"--name is missing":          {"--kubeconfig", "x"},
		`unexpected argument "more"`: {"--kubeconfig", "x", "--name", "a", "more"},
		"read --kubeconfig":          {"--kubeconfig", "/nonexistent", "--name", "a"},
		"Config.Duration is 500ms":   {"--kubeconfig", kubeconfig(t, "http://127.0.0.1:1"), "--name", "a", "--duration", "500ms"},
	} {
		t.Run(want, func(t *testing.T) {
			err := run(t.Context(), args, &buffer{}, &buffer{})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q in it", err, want)
			}
		})
	}
}

func TestShowsEachRenewal(t *testing.T) {
	server := leasetest.New()
	h := httptest.NewServer(server)
	defer h.Close()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	out := &buffer{}
	var wg sync.WaitGroup
	wg.Go(func() {
		args := []string{"--kubeconfig", kubeconfig(t, h.URL), "--namespace", "ns", "--name", "backup", "--duration", "1s", "--period", "50ms"}
		if err := run(ctx, args, out, &buffer{}); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(server.Writes()) < 3 && ctx.Err() == nil {
		<-tick.C
	}
	stop()
	wg.Wait()
	line := `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}   +%s +renewed in [0-9.]+(µs|ms|s)\n`
	want := regexp.MustCompile(`^TIME +GAP +WHAT\n` + fmt.Sprintf(line, "-") + `(` + fmt.Sprintf(line, "[0-9.]+m?s") + `)+$`)
	if got := out.String(); !want.MatchString(got) {
		t.Errorf("output:\n%s\nwant it to match %s", got, want)
	}
}

package server_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/runtime/server"
)

// journal has what kubelet and containerd log, and writes what it is asked for.
type journal struct{ err error }

func (journal) Has(_ context.Context, service string) bool {
	return service == "kubelet" || service == "containerd"
}

func (j journal) Copy(_ context.Context, w io.Writer, q server.LogQuery) error {
	fmt.Fprintf(w, "%v", q.Services)
	if !q.Since.IsZero() {
		fmt.Fprintf(w, " since %s", q.Since.Format(time.RFC3339))
	}
	if !q.Until.IsZero() {
		fmt.Fprintf(w, " until %s", q.Until.Format(time.RFC3339))
	}
	if q.Tail != nil {
		fmt.Fprintf(w, " tail %d", *q.Tail)
	}
	if q.Boot != nil {
		fmt.Fprintf(w, " boot %d", *q.Boot)
	}
	if q.Pattern != "" {
		fmt.Fprintf(w, " pattern %s", q.Pattern)
	}
	return j.err
}

// whatIsOutside is in no answer, and in no query either.
const whatIsOutside = "root:$6$9Qz:19000"

// machineLogs is a folder of logs of a machine.
func machineLogs(tb testing.TB) string {
	tb.Helper()
	root := tb.TempDir()
	dir := filepath.Join(root, "log")
	for name, text := range map[string]string{
		"log/syslog": "all of it", "log/cron.log": "each hour", "log/nginx/nginx.log": "requests", "log/pods/x": "a pod", "secret": whatIsOutside,
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "link.log")); err != nil {
		tb.Fatal(err)
	}
	return dir
}

func TestLogQueries(t *testing.T) {
	a := serve(t, server.Config{Protect: server.Open, Debug: server.Debug{HostLogs: machineLogs(t), Journal: journal{}}})
	for _, tt := range []struct {
		name, path string
		code       int
		want       string
	}{
		{"service", "/logs/?query=kubelet", 200, "[kubelet]"},
		{"without the slash", "/logs?query=kubelet", 307, "/logs/?query=kubelet"},
		{"end before the beginning", "/logs/?query=kubelet&sinceTime=2026-01-02T03:04:05Z&untilTime=2026-01-02T03:04:05%2B01:00", 406, "untilTime: it is before sinceTime"},
		{
			"options", "/logs/?query=kubelet&query=containerd&sinceTime=2026-01-02T03:04:05Z&untilTime=2026-01-02T05:04:05%2B01:00&tailLines=9&boot=-1&pattern=a.b", 200,
			"[kubelet containerd] since 2026-01-02T03:04:05Z until 2026-01-02T05:04:05+01:00 tail 9 boot -1 pattern a.b",
		},
		{"file of a service", "/logs/?query=syslog", 200, "all of it"},
		{"with its ending", "/logs/?query=cron", 200, "each hour"},
		{"in a folder of its own", "/logs/?query=nginx", 200, "requests"},
		{"both", "/logs/?query=cron&query=kubelet", 200, "[kubelet]each hour"},
		{"no log", "/logs/?query=none", 200, "\nnone: there is no log\n"},
		{"link", "/logs/?query=link", 200, "a link is in the way, it is not followed"},
		{"way out", "/logs/?query=..", 200, "a link is in the way, it is not followed"},
		{"options for a file", "/logs/?query=cron&tailLines=1", 200, "cron: in files, of which everything is shown"},
		{"file", "/logs/?query=/nginx/nginx.log", 200, "requests"},
		{"file of Windows", `/logs/?query=nginx\nginx.log`, 200, "requests"},
		{"folder", "/logs/?query=pods/", 200, `<a href="./x">x</a>`},
		{"no file", "/logs/?query=/none", 406, "query: open none"},
		{"file outside", "/logs/?query=../secret", 406, "a link is in the way, it is not followed"},
		{"file with options", "/logs/?query=/syslog&boot=0", 406, "query: a file is shown as it is"},
		{"two files", "/logs/?query=/syslog&query=/cron.log", 406, "query: it has 2 files, want one"},
		{"file and service", "/logs/?query=/syslog&query=kubelet", 406, "want one or the other"},
		{"five services", "/logs/?query=a&query=b&query=c&query=d&query=e", 406, "query: it has 5 services, want 4 at most"},
		{"odd service", "/logs/?query=" + url.QueryEscape("a b"), 406, `query: "a b" is not the name of a service`},
		{"long service", "/logs/?query=" + strings.Repeat("x", 257), 406, "is not the name of a service"},
		{"nothing", "/logs/?query=%20", 400, "query: it is empty"},
		{"options alone", "/logs/?tailLines=1", 406, "query: it is missing"},
		{"path", "/logs/syslog?query=kubelet", 406, "a query has no path beside it"},
		{"no time", "/logs/?query=kubelet&sinceTime=now&boot=x", 400, "sinceTime: \"now\" is no time, want one like 2026-01-02T15:04:05Z\nboot: \"x\" is no number"},
		{"run to come", "/logs/?query=kubelet&boot=1", 406, "boot: 1 is more than 0"},
		{"many lines", "/logs/?query=kubelet&tailLines=100001", 406, "tailLines: 100001 is not in 0 to 100000"},
		{"no pattern", "/logs/?query=kubelet&pattern=(", 406, "pattern: "},
		{"file by its path", "/logs/syslog", 200, "all of it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := a.with(t)
			resp, body := a.do(http.MethodGet, tt.path, nil)
			if resp.StatusCode != tt.code || !has(body, tt.want) {
				t.Errorf("GET %s is %s %q, want %d %q", tt.path, resp.Status, body, tt.code, tt.want)
			}
		})
	}
}

// TestLogQuerySwitchedOff leaves files as they are.
func TestLogQuerySwitchedOff(t *testing.T) {
	s, err := server.New(server.Config{Protect: server.Open, Debug: server.Debug{HostLogs: machineLogs(t)}})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/logs/?query=kubelet": 501, "/logs/syslog?tailLines=1": 200, "/logs/": 200} {
		if code, body := ask(s.Handler(), path); code != want {
			t.Errorf("GET %s is %d %q, want %d", path, code, body, want)
		}
	}
}

// TestJournalThatFails says so in the answer, which has begun.
func TestJournalThatFails(t *testing.T) {
	s, err := server.New(server.Config{Protect: server.Open, Debug: server.Debug{HostLogs: machineLogs(t), Journal: journal{errors.New("it is rotten")}}})
	if err != nil {
		t.Fatal(err)
	}
	if code, body := ask(s.Handler(), "/logs/?query=kubelet&query=cron"); code != 200 || body != "[kubelet]\nthe journal cannot be read: it is rotten\neach hour" {
		t.Errorf("%d %q", code, body)
	}
}

func TestLogQueryPacked(t *testing.T) {
	a := serve(t, server.Config{Protect: server.Open, Debug: server.Debug{HostLogs: machineLogs(t), Journal: journal{}}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+a.host+"/logs/?query=kubelet", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip") // set here, the client does not unpack it
	resp, err := a.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Encoding"); got != "gzip" {
		t.Fatalf("Content-Encoding is %q, want gzip", got)
	}
	r, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != "[kubelet]" {
		t.Errorf("it has %q, %v", text, err)
	}
}

// TestJournalctl runs a command that stands in for it.
func TestJournalctl(t *testing.T) {
	bin, err := filepath.Abs("testdata/bin")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	var j server.Journalctl
	for service, want := range map[string]bool{"kubelet": true, "ssh@1": true, "let": false, "kubelet.service": false, "cron": false} {
		if got := j.Has(t.Context(), service); got != want {
			t.Errorf("has logs of %s: %t, want %t", service, got, want)
		}
	}
	for _, tt := range []struct {
		name string
		q    server.LogQuery
		want string
	}{
		{"all", server.LogQuery{Services: []string{"kubelet", "cron"}}, "--utc --no-pager --output=short-precise --unit=kubelet --unit=cron\n"},
		{"options", server.LogQuery{Services: []string{"kubelet"}, LogOptions: server.LogOptions{
			Since: time.Date(2026, 1, 2, 5, 4, 5, 0, time.FixedZone("", 3600)), Until: time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC),
			Tail: new(9), Boot: new(-1), Pattern: "a --b",
		}}, "--utc --no-pager --output=short-precise --since=2026-01-02 04:04:05 UTC --until=2026-01-03 00:00:00 UTC --lines=9 --unit=kubelet --grep=a --b --boot=-1\n"},
		{"nothing found", server.LogQuery{Services: []string{"kubelet"}, LogOptions: server.LogOptions{Pattern: "fails"}}, "-- No entries --\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			if err := j.Copy(t.Context(), &out, tt.q); err != nil || out.String() != tt.want {
				t.Errorf("%q, %v; want %q", out.String(), err, tt.want)
			}
		})
	}
}

// TestJournalctlThatIsNotThere has no logs of anything.
func TestJournalctlThatIsNotThere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var j server.Journalctl
	if j.Has(t.Context(), "kubelet") {
		t.Error("has logs without journalctl")
	}
	if err := j.Copy(t.Context(), io.Discard, server.LogQuery{}); err == nil {
		t.Error("copies without journalctl")
	}
}

func FuzzLogQuery(f *testing.F) {
	dir := machineLogs(f)
	for _, q := range []string{"query=kubelet", "query=..", "query=../secret", `query=..\secret`, "query=link.log", "query=/link.log", "query=%00", "query=a&boot=0", "tailLines=%2B1", "sinceTime=0"} {
		f.Add(q)
	}
	s, err := server.New(server.Config{Protect: server.Open, Debug: server.Debug{HostLogs: dir, Journal: journal{}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if code, body := ask(s.Handler(), "/logs/?"+query); has(body, whatIsOutside) {
			t.Errorf("/logs/?%s shows what is outside: %d %q", query, code, body)
		}
	})
}

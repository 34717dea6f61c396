package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// logSize is how many bytes the log has that is read, in lines of lineSize.
const (
	logSize  = 64 << 20
	lineSize = 100
)

// streams reads a log and runs commands in a container, asking each kubelet in turns as the
// API server does.
func (b *bench) streams(ctx context.Context) error {
	rt, err := cluster.ParseRuntime(b.runtime)
	if err != nil {
		return err
	}
	var sides []*target
	for _, source := range []cluster.Source{cluster.Stock, cluster.Ours} {
		// Nobody is to rotate the log.
		s, err := b.addSide(ctx, source, cluster.NodeConfig{Runtime: rt, KubeletSettings: map[string]any{"containerLogMaxSize": "1Gi"}},
			func(s *side) error { return s.ImportImage(ctx, testnode.Life()) })
		if err != nil {
			return err
		}
		t, err := s.target(ctx)
		if err != nil {
			return err
		}
		defer t.close()
		sides = append(sides, t)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "round\tkubelet\tlog MB/s\tCPU/GB\tSPDY exec\tCPU\tWebSocket exec\tCPU")
	rows := map[cluster.Source][]streamRow{}
	for round := range b.rounds {
		for _, t := range sides {
			r, err := t.measure(ctx, b.execs)
			if err != nil {
				return err
			}
			rows[t.source] = append(rows[t.source], r)
			fmt.Fprintf(w, "%d\t%s\t%.0f\t%.2f s\t%.1f ms\t%.2f ms\t%.1f ms\t%.2f ms\n", round+1, t.source, r.log, r.logCPU, r.spdy, r.spdyCPU, r.socket, r.socketCPU)
			w.Flush()
		}
		slices.Reverse(sides)
	}
	stock, ours := bestStreams(rows[cluster.Stock]), bestStreams(rows[cluster.Ours])
	fmt.Fprintf(w, "\tratio of the best\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\n", ours.log/stock.log, ours.logCPU/stock.logCPU,
		ours.spdy/stock.spdy, ours.spdyCPU/stock.spdyCPU, ours.socket/stock.socket, ours.socketCPU/stock.socketCPU)
	return w.Flush()
}

// streamRow is what a round took: MB/s and seconds of CPU per GB of a log, milliseconds and
// milliseconds of CPU per command.
type streamRow struct{ log, logCPU, spdy, spdyCPU, socket, socketCPU float64 }

// bestStreams returns the best of all rounds.
func bestStreams(rows []streamRow) streamRow {
	best := rows[0]
	for _, r := range rows[1:] {
		best = streamRow{
			max(best.log, r.log), min(best.logCPU, r.logCPU), min(best.spdy, r.spdy),
			min(best.spdyCPU, r.spdyCPU), min(best.socket, r.socket), min(best.socketCPU, r.socketCPU),
		}
	}
	return best
}

// target is a pod on one of the nodes, and the way to its kubelet.
type target struct {
	*side
	pod   string
	relay *relay
	api   *rest.Config
}

// target makes a pod whose log is long.
func (s *side) target(ctx context.Context) (*target, error) {
	if _, err := s.makePods(ctx, 1, template("streams", testnode.Life().Ref)); err != nil {
		return nil, err
	}
	t := &target{side: s, pod: fmt.Sprintf("streams-%s-0", s.source)}
	pod, err := s.client.CoreV1().Pods("default").Get(ctx, t.pod, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	log := s.Private("log", "pods", "default_"+t.pod+"_"+string(pod.UID), "app", "0.log")
	if err := writeLog(log); err != nil {
		return nil, err
	}
	if t.relay, err = newRelay(ctx, s.cluster, net.JoinHostPort(s.Address().String(), "10250")); err != nil {
		return nil, err
	}
	pki := s.cluster.Plane().Dir("pki")
	t.api = &rest.Config{Host: "https://" + t.relay.Addr().String(), TLSClientConfig: rest.TLSClientConfig{
		Insecure: true, CertFile: filepath.Join(pki, "apiserver-kubelet.crt"), KeyFile: filepath.Join(pki, "apiserver-kubelet.key"),
	}}
	return t, nil
}

// writeLog writes the log of a container that says no more.
func writeLog(file string) error {
	head := "2026-01-02T15:04:05.123456789Z stdout F "
	line := []byte(head + strings.Repeat("x", lineSize-len(head)-1) + "\n")
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(bytes.Repeat(line, logSize/lineSize))
	return errors.Join(err, f.Close())
}

func (t *target) close() { t.relay.close() }

// measure does a round.
func (t *target) measure(ctx context.Context, execs int) (streamRow, error) {
	var r streamRow
	took, cpu, err := t.timed(func() error { return t.readLog(ctx) })
	if err != nil {
		return r, err
	}
	r.log, r.logCPU = logSize/1e6/took.Seconds(), cpu.Seconds()/(logSize/1e9)
	for _, e := range []struct {
		make      func(*url.URL) (remotecommand.Executor, error)
		took, cpu *float64
	}{
		{func(u *url.URL) (remotecommand.Executor, error) {
			return remotecommand.NewSPDYExecutor(t.api, http.MethodPost, u)
		}, &r.spdy, &r.spdyCPU},
		{func(u *url.URL) (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(t.api, http.MethodGet, u.String())
		}, &r.socket, &r.socketCPU},
	} {
		var each []time.Duration
		_, cpu, err := t.timed(func() error {
			for range execs {
				began := time.Now()
				if err := t.exec(ctx, e.make); err != nil {
					return err
				}
				each = append(each, time.Since(began))
			}
			return nil
		})
		if err != nil {
			return r, err
		}
		slices.Sort(each)
		*e.took, *e.cpu = each[len(each)/2].Seconds()*1000, cpu.Seconds()*1000/float64(execs)
	}
	return r, nil
}

// timed measures the time and the kubelet's CPU that f takes.
func (t *target) timed(f func() error) (took, cpu time.Duration, err error) {
	before, err := t.kubeletUse()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := f(); err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	after, err := t.kubeletUse()
	return took, after.cpu - before.cpu, err
}

// readLog reads all of the log.
func (t *target) readLog(ctx context.Context) error {
	client, err := rest.HTTPClientFor(t.api)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.api.Host+"/containerLogs/default/"+t.pod+"/app", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if want := int64(logSize / lineSize * (lineSize - 40)); err == nil && (resp.StatusCode != http.StatusOK || n < want) {
		err = fmt.Errorf("log of %s is %s with %d bytes, want %d", t.pod, resp.Status, n, want)
	}
	return err
}

// exec runs a command that ends at once.
func (t *target) exec(ctx context.Context, executor func(*url.URL) (remotecommand.Executor, error)) error {
	u, err := url.Parse(t.api.Host + "/exec/default/" + t.pod + "/app?command=/life&command=list&command=/tmp&output=1&error=1")
	if err != nil {
		return err
	}
	e, err := executor(u)
	if err != nil {
		return err
	}
	return e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard, Stderr: io.Discard})
}

// relay leads from a port of this machine to one inside the cluster, for clients that dial by
// themselves.
type relay struct {
	net.Listener
	wg sync.WaitGroup
}

func newRelay(ctx context.Context, c *cluster.Cluster, to string) (*relay, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{Listener: l}
	r.wg.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			r.wg.Go(func() {
				defer from.Close()
				conn, err := c.Plane().Dial(ctx, "tcp", to)
				if err != nil {
					return
				}
				defer conn.Close()
				both(from, conn)
			})
		}
	})
	return r, nil
}

// both copies until one of the two ends.
func both(a, b net.Conn) {
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // either way it is over
			a.Close()
			b.Close()
		})
	}
	wg.Wait()
}

func (r *relay) close() {
	r.Close()
	r.wg.Wait()
}

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/lease"
	"github.com/nodekit-go/nodekit/lease/leasetest"
)

// protocols are those of HTTP over which the faults are tried.
func protocols() map[string]*http.Protocols {
	h1, h2 := &http.Protocols{}, &http.Protocols{}
	h1.SetHTTP1(true)
	h2.SetUnencryptedHTTP2(true)
	return map[string]*http.Protocols{"HTTP 1.1": h1, "HTTP 2": h2}
}

func http1() *http.Protocols { return protocols()["HTTP 1.1"] }

func TestLeaseIsWhatTheKubeletWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, http1())
		w.server.SetNode("node-a", func(*corev1.Node) {})
		uid := w.server.NodeUID("node-a")
		start := time.Now()
		keep(t, w.client.Leases(lease.DefaultNamespace), lease.Config{
			Link: w.link,
			Node: func(context.Context) (types.UID, error) { return uid, nil },
		})
		synctest.Wait()
		got := w.server.Lease(lease.DefaultNamespace, "node-a")
		holder, seconds := "node-a", int32(40)
		want := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Name: "node-a", Namespace: "kube-node-lease",
				UID: got.UID, ResourceVersion: got.ResourceVersion, CreationTimestamp: got.CreationTimestamp,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-a", UID: uid}},
			},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: start},
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Lease (-want +got):\n%s", diff)
		}
	})
}

func TestRenewalsComeEveryPeriodAndALittleLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, http1())
		d := keep(t, w.client.Leases(lease.DefaultNamespace), lease.Config{Link: w.link})
		pass(10 * time.Minute)
		renewals, failures := d.all()
		if len(failures) > 0 {
			t.Fatalf("failures: %v", failures)
		}
		if n := len(renewals); n < 58 || n > 61 {
			t.Errorf("%d renewals in 10 minutes, want 58 to 61", n)
		}
		different := map[time.Duration]bool{}
		for _, r := range renewals[1:] {
			different[r.Gap] = true
			if r.Gap < 10*time.Second || r.Gap > 10*time.Second+400*time.Millisecond {
				t.Errorf("gap of %s, want 10 s and at most 4 %% more", r.Gap)
			}
		}
		if len(different) < 10 {
			t.Errorf("%d different gaps, want them spread", len(different))
		}
		if w.requests != len(renewals)+1 {
			t.Errorf("%d requests for %d renewals, want one more: the look whether there is a Lease", w.requests, len(renewals))
		}
		if w.dials != 1 {
			t.Errorf("%d connections were opened, want 1", w.dials)
		}
	})
}

// faults are what can be wrong with a server for a while. Each returns what puts it
// right again.
func faults() map[string]func(*world) (mend func()) {
	answer := func(f func(http.ResponseWriter, *http.Request) bool) func(*world) func() {
		return func(w *world) func() {
			w.set(func(w *world) { w.fault = f })
			return func() { w.set(func(w *world) { w.fault = nil }) }
		}
	}
	return map[string]func(*world) func(){
		"hangs": answer(func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}),
		"hangs in the middle of an answer": answer(func(rw http.ResponseWriter, r *http.Request) bool {
			rw.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(rw, "{")
			_ = http.NewResponseController(rw).Flush()
			<-r.Context().Done()
			return true
		}),
		"answers 500": answer(func(rw http.ResponseWriter, _ *http.Request) bool {
			http.Error(rw, "etcdserver: no leader", http.StatusInternalServerError)
			return true
		}),
		"answers nonsense": answer(func(rw http.ResponseWriter, _ *http.Request) bool {
			_, _ = io.WriteString(rw, "<html>")
			return true
		}),
		"refuses connections": func(w *world) func() {
			w.set(func(w *world) { w.refuse = true })
			w.silence()
			return func() { w.set(func(w *world) { w.refuse = false }) }
		},
		"swallows everything": func(w *world) func() {
			w.set(func(w *world) { w.deaf = true })
			w.silence()
			return func() { w.set(func(w *world) { w.deaf = false }) }
		},
	}
}

func TestLeaseSurvivesAnOutageOfAThirdOfIt(t *testing.T) {
	for protocol, p := range protocols() {
		for fault, breaks := range faults() {
			t.Run(fault+" over "+protocol, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, p)
					d := keep(t, w.client.Leases(lease.DefaultNamespace), lease.Config{Link: w.link})
					start := time.Now()
					pass(60 * time.Second)
					mend := breaks(w)
					pass(14 * time.Second)
					mend()
					pass(2 * time.Minute)
					renewals, failures := d.all()
					if len(failures) == 0 {
						t.Error("no failure was told, the fault had no effect")
					}
					if gap := largestGap(start, w.server.Writes()); gap >= 40*time.Second {
						t.Errorf("the Lease was not renewed for %s, it lasts 40 s", gap)
					}
					if last := renewals[len(renewals)-1]; last.Attempts != 1 {
						t.Errorf("the last renewal took %d attempts, want 1", last.Attempts)
					}
				})
			})
		}
	}
}

// A connection whose other end is gone without a word: with HTTP/2 requests would go
// into it until the kernel gives up.
func TestSilentConnectionCostsOneAttempt(t *testing.T) {
	for protocol, p := range protocols() {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, p)
				d := keep(t, w.client.Leases(lease.DefaultNamespace), lease.Config{Link: w.link})
				start := time.Now()
				for range 50 {
					pass(30 * time.Second)
					w.silence()
				}
				pass(30 * time.Second)
				if gap := largestGap(start, w.server.Writes()); gap > 16*time.Second {
					t.Errorf("largest gap %s, want a period and one attempt of 5 s", gap)
				}
				_, failures := d.all()
				if len(failures) != 50 {
					t.Errorf("%d failures, want 50", len(failures))
				}
				for _, f := range failures {
					if f.Attempt != 1 || !errors.Is(f.Err, context.DeadlineExceeded) || !strings.Contains(f.Err.Error(), "renew lease kube-node-lease/node-a: ") {
						t.Errorf("failure %+v, want the first attempt at its deadline", f)
					}
				}
				if n := w.link.Connections(); n != 1 {
					t.Errorf("%d connections are open, want 1", n)
				}
			})
		})
	}
}

func TestLeaseThatOthersTouch(t *testing.T) {
	const ns = lease.DefaultNamespace
	tests := []struct {
		name  string
		touch func(*leasetest.Server)
		// failures are those it may cost.
		failures int
		check    func(*testing.T, *coordinationv1.Lease)
	}{
		{
			name:  "deleted",
			touch: func(s *leasetest.Server) { s.DeleteLease(ns, "node-a") },
		},
		{
			name: "labelled",
			touch: func(s *leasetest.Server) {
				s.SetLease(ns, "node-a", func(l *coordinationv1.Lease) { l.Labels = map[string]string{"a": "b"} })
			},
			failures: 1,
			check: func(t *testing.T, l *coordinationv1.Lease) {
				t.Helper()
				if l.Labels["a"] != "b" {
					t.Errorf("labels %v, want the other's kept", l.Labels)
				}
			},
		},
		{
			name: "held by somebody else",
			touch: func(s *leasetest.Server) {
				s.SetLease(ns, "node-a", func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "other" })
			},
			failures: 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, http1())
				d := keep(t, w.client.Leases(ns), lease.Config{Link: w.link})
				pass(25 * time.Second)
				tt.touch(w.server)
				pass(time.Minute)
				l := w.server.Lease(ns, "node-a")
				if age := time.Since(l.Spec.RenewTime.Time); age > 11*time.Second {
					t.Errorf("the Lease is %s old", age)
				}
				if *l.Spec.HolderIdentity != "node-a" {
					t.Errorf("held by %q", *l.Spec.HolderIdentity)
				}
				if _, failures := d.all(); len(failures) != tt.failures {
					t.Errorf("failures %v, want %d", failures, tt.failures)
				}
				if gap := largestGap(d.start, w.server.Writes()); gap > 11*time.Second {
					t.Errorf("largest gap %s: the fault was not mended at once", gap)
				}
				if tt.check != nil {
					tt.check(t, l)
				}
			})
		})
	}
}

func TestOwnerOfALease(t *testing.T) {
	const ns = lease.DefaultNamespace
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, http1())
		nodes := w.client.Nodes()
		keep(t, w.client.Leases(ns), lease.Config{
			Link: w.link,
			Node: func(ctx context.Context) (types.UID, error) {
				n, err := nodes.Get(ctx, "node-a", metav1.GetOptions{})
				if err != nil {
					return "", err
				}
				return n.UID, nil
			},
		})
		pass(time.Minute)
		if l := w.server.Lease(ns, "node-a"); l != nil {
			t.Fatalf("the Lease was created before its Node: %v", l)
		}
		w.server.SetNode("node-a", func(*corev1.Node) {})
		pass(8 * time.Second)
		if !w.server.Owned(ns, "node-a") {
			t.Fatal("the Lease was not created with its owner soon after the Node")
		}

		// The Node goes, and takes the Lease with it; later there is a new one.
		w.server.DeleteNode("node-a")
		pass(time.Minute)
		if l := w.server.Lease(ns, "node-a"); l != nil {
			t.Fatalf("the Lease was created again before its Node: %v", l)
		}
		w.server.SetNode("node-a", func(*corev1.Node) {})
		pass(8 * time.Second)
		if !w.server.Owned(ns, "node-a") {
			t.Fatal("the Lease does not belong to the new Node")
		}
	})
}

func TestOwnerIsAddedToALeaseThatExists(t *testing.T) {
	const ns = lease.DefaultNamespace
	for name, refs := range map[string][]metav1.OwnerReference{
		"without owner":     nil,
		"of a Node of past": {{APIVersion: "v1", Kind: "Node", Name: "node-a", UID: "old"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, http1())
				w.server.SetLease(ns, "node-a", func(l *coordinationv1.Lease) { l.OwnerReferences = refs })
				var registered atomic.Bool
				keep(t, w.client.Leases(ns), lease.Config{Link: w.link, Node: func(context.Context) (types.UID, error) {
					if !registered.Load() {
						return "", errors.New("not registered yet")
					}
					return w.server.NodeUID("node-a"), nil
				}})
				pass(30 * time.Second)
				if n := len(w.server.Writes()); n < 3 {
					t.Fatalf("%d renewals in 30 s: the Lease waits for its owner", n)
				}
				w.server.SetNode("node-a", func(*corev1.Node) {})
				registered.Store(true)
				pass(22 * time.Second)
				if l := w.server.Lease(ns, "node-a"); !w.server.Owned(ns, "node-a") || len(l.OwnerReferences) != 1 {
					t.Errorf("owners %v, want the Node alone", l.OwnerReferences)
				}
			})
		})
	}
}

// A lookup of the Node that hangs must not delay the heartbeat.
func TestLookupOfTheOwnerDoesNotDelayRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, http1())
		w.server.SetLease(lease.DefaultNamespace, "node-a", func(*coordinationv1.Lease) {})
		d := keep(t, w.client.Leases(lease.DefaultNamespace), lease.Config{Link: w.link, Node: func(ctx context.Context) (types.UID, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}})
		pass(2 * time.Minute)
		if gap := largestGap(d.start, w.server.Writes()); gap > 11*time.Second {
			t.Errorf("largest gap %s", gap)
		}
	})
}

func TestClockOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, http1())
		ahead := func(by time.Duration) {
			w.set(func(w *world) {
				w.fault = func(rw http.ResponseWriter, _ *http.Request) bool {
					rw.Header().Set("Date", time.Now().Add(by).UTC().Format(http.TimeFormat))
					return false
				}
			})
		}
		var log strings.Builder
		d := keep(t, w.client.Leases(lease.DefaultNamespace), lease.Config{
			Link: w.link, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		var got []string
		for _, by := range []time.Duration{0, time.Minute, -time.Hour, 4 * time.Second, 0} {
			ahead(by)
			pass(22 * time.Second)
			renewals, _ := d.all()
			got = append(got, fmt.Sprintf("%s: %s", by, renewals[len(renewals)-1].Skew.Round(2*time.Second)))
		}
		want := []string{"0s: 0s", "1m0s: 1m0s", "-1h0m0s: -1h0m0s", "4s: 4s", "0s: 0s"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("skew (-want +got):\n%s", diff)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 1 {
			t.Errorf("%d warnings, want one as long as the clocks differ:\n%s", n, log.String())
		}
		if n := strings.Count(log.String(), "agree again"); n != 1 {
			t.Errorf("told %d times that the clocks agree, want once:\n%s", n, log.String())
		}
	})
}

// slow answers after a time, unless the client has gone.
func slow(by time.Duration) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		timer := time.NewTimer(by)
		defer timer.Stop()
		select {
		case <-timer.C:
			return false
		case <-r.Context().Done():
			return true
		}
	}
}

// A server that is slow because it has too much to do is given time, so that its nodes
// do not all seem lost.
func TestSlowServerIsGivenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, http1())
		d := keep(t, w.client.Leases(lease.DefaultNamespace), lease.Config{Link: w.link})
		pass(time.Minute)
		w.set(func(w *world) { w.fault = slow(9 * time.Second) })
		pass(10 * time.Minute)
		if gap := largestGap(d.start, w.server.Writes()); gap >= 40*time.Second {
			t.Errorf("largest gap %s", gap)
		}
	})
}

// A write whose answer is lost has arrived all the same: it is not sent again.
func TestWriteWhoseAnswerIsLostCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, http1())
		d := keep(t, w.client.Leases(lease.DefaultNamespace), lease.Config{Link: w.link})
		pass(15 * time.Second)
		lose := true
		w.set(func(w *world) {
			w.fault = func(_ http.ResponseWriter, r *http.Request) bool {
				if !lose || r.Method != http.MethodPut {
					return false
				}
				lose = false
				w.server.ServeHTTP(httptest.NewRecorder(), r)
				<-r.Context().Done()
				return true
			}
		})
		before := len(w.server.Writes())
		pass(12 * time.Second)
		renewals, failures := d.all()
		if last := renewals[len(renewals)-1]; last.Attempts != 3 || len(failures) != 2 {
			t.Errorf("renewal %+v after %v, want the third attempt to find the first one's", last, failures)
		}
		writes := w.server.Writes()
		if n := len(writes) - before; n != 1 {
			t.Errorf("%d writes, want the lost one alone", n)
		}
		if got := renewals[len(renewals)-1].Time; got.Sub(writes[len(writes)-1].Time).Abs() > time.Millisecond {
			t.Errorf("it counts as of %s, it was written at %s", got, writes[len(writes)-1].Time)
		}
	})
}

func TestServerThatAsksForPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, http1())
		busy := client{Leases: w.client.Leases(lease.DefaultNamespace), err: apierrors.NewTooManyRequests("busy", 8)}
		d := keep(t, busy, lease.Config{})
		pass(time.Minute)
		_, failures := d.all()
		if n := len(failures); n < 6 || n > 9 {
			t.Errorf("%d attempts in a minute, want one every 8 s", n)
		}
	})
}

// client answers every Get with an error.
type client struct {
	leasetest.Leases
	err error
}

func (c client) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	return nil, c.err
}

func TestServerThatIsDownIsNotFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, http1())
		w.set(func(w *world) { w.refuse = true })
		d := keep(t, w.client.Leases(lease.DefaultNamespace), lease.Config{Link: w.link})
		pass(10 * time.Minute)
		_, failures := d.all()
		if n := len(failures); n < 120 || n > 260 {
			t.Errorf("%d attempts in 10 minutes, want one every 2.5 to 5 s", n)
		}
	})
}

func TestNewRefusesWrongConfigs(t *testing.T) {
	ok := leasetest.Client{}.Leases("ns")
	tests := []struct {
		name   string
		client lease.Client
		cfg    lease.Config
		want   string
	}{
		{"no client", nil, lease.Config{Name: "a"}, "lease: the Client is nil"},
		{"no name", ok, lease.Config{}, "lease: Config.Name is empty, want the name of the Lease, for a node the node's"},
		{"half a second", ok, lease.Config{Name: "a", Duration: 1500 * time.Millisecond}, "lease: Config.Duration is 1.5s, want whole seconds, at least one"},
		{"long period", ok, lease.Config{Name: "a", Period: 21 * time.Second}, "lease: Config.Period is 21s, want at most half of the duration of 40s"},
		{"long timeout", ok, lease.Config{Name: "a", Timeout: 40 * time.Second}, "lease: Config.Timeout is 40s, want less than the duration of 40s"},
		{"negative skew", ok, lease.Config{Name: "a", MaxSkew: -1}, "lease: Config.MaxSkew is -1ns, must not be negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := lease.New(tt.client, tt.cfg)
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

// Package runtime compares the CRI client with a plain gRPC client and with
// k8s.io/cri-client, in one run against one runtime.
package runtime

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	remote "k8s.io/cri-client/pkg"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// timeout is what all clients grant a call.
const timeout = 2 * time.Minute

// client is one of those that are compared.
type client struct {
	name   string
	status func(ctx context.Context, id string) error
	list   func(ctx context.Context) (int, error)
}

func clients(tb testing.TB, s *runtimetest.Server) []client {
	tb.Helper()
	conn, err := grpc.NewClient(s.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	plain := runtimeapi.NewRuntimeServiceClient(conn)
	theirs, err := remote.NewRemoteRuntimeService(tb.Context(), s.Endpoint(), timeout, nil, false)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { theirs.Close(context.WithoutCancel(tb.Context())) })
	ours := s.Client(tb)
	return []client{
		{
			"grpc",
			func(ctx context.Context, id string) error {
				ctx, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				_, err := plain.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
				return err
			},
			func(ctx context.Context) (int, error) {
				ctx, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				resp, err := plain.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
				return len(resp.GetContainers()), err
			},
		},
		{
			"nodekit",
			func(ctx context.Context, id string) error { _, err := ours.ContainerStatus(ctx, id, false); return err },
			func(ctx context.Context) (int, error) { l, err := ours.ListContainers(ctx, nil); return len(l), err },
		},
		{
			"cri-client",
			func(ctx context.Context, id string) error {
				_, err := theirs.ContainerStatus(ctx, id, false)
				return err
			},
			func(ctx context.Context) (int, error) { l, err := theirs.ListContainers(ctx, nil); return len(l), err },
		},
	}
}

// fill makes pods with three containers each and returns the id of one container.
func fill(tb testing.TB, c *runtime.Client, pods int) (id string) {
	tb.Helper()
	ctx := tb.Context()
	image := &runtimeapi.ImageSpec{Image: "web"}
	for i := range pods {
		pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: fmt.Sprint("pod-", i), Namespace: "default", Uid: fmt.Sprint(i)}}
		sandbox, err := c.RunPodSandbox(ctx, pod, "")
		if err != nil {
			tb.Fatal(err)
		}
		for n := range 3 {
			id, err = c.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: fmt.Sprint("c-", n)}, Image: image,
				Labels: map[string]string{"io.kubernetes.pod.uid": fmt.Sprint(i), "io.kubernetes.pod.name": fmt.Sprint("pod-", i)},
			}, pod)
			if err != nil {
				tb.Fatal(err)
			}
		}
	}
	return id
}

// round is one median of each client.
func round(all []client, random *rand.Rand, times int, do func(client) error) ([]time.Duration, error) {
	took := make([][]time.Duration, len(all))
	for range times {
		for _, k := range random.Perm(len(all)) {
			began := time.Now()
			if err := do(all[k]); err != nil {
				return nil, fmt.Errorf("%s: %w", all[k].name, err)
			}
			took[k] = append(took[k], time.Since(began))
		}
	}
	medians := make([]time.Duration, len(all))
	for i := range took {
		medians[i] = median(took[i])
	}
	return medians, nil
}

// A call takes at most a tenth longer than one on a plain gRPC client. The best of a few
// rounds counts: noise of the machine only adds.
func TestOverheadOfACall(t *testing.T) {
	const rounds, calls, most = 5, 1000, 1.1
	s := runtimetest.StartUnix(t, runtimetest.Config{Images: []runtimetest.Image{{Name: "web"}}})
	id := fill(t, s.Client(t), 1)
	all := clients(t, s)
	random := rand.New(rand.NewPCG(1, 2))
	best := 0.0
	for n := range rounds {
		took, err := round(all, random, calls, func(c client) error { return c.status(t.Context(), id) })
		if err != nil {
			t.Fatal(err)
		}
		ratio := float64(took[1]) / float64(took[0])
		t.Logf("grpc %v, nodekit %v, cri-client %v: %.3f times plain gRPC", took[0], took[1], took[2], ratio)
		if n == 0 || ratio < best {
			best = ratio
		}
		s.ForgetCalls()
	}
	if best > most {
		t.Errorf("a call takes %.3f times as long as with plain gRPC, want at most %v", best, most)
	}
}

// compare lets the clients take turns in random order, so that a busy machine slows all
// of them, and reports the median of each and the ratios to plain gRPC.
func compare(b *testing.B, s *runtimetest.Server, all []client, do func(client) error) {
	b.Helper()
	took := make([][]time.Duration, len(all))
	random := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		one, err := round(all, random, 1, do)
		if err != nil {
			b.Fatal(err)
		}
		for i := range one {
			took[i] = append(took[i], one[i])
		}
		s.ForgetCalls()
	}
	plain := median(took[0])
	for i, c := range all {
		b.ReportMetric(float64(median(took[i]).Nanoseconds()), c.name+"-ns/op")
		if i > 0 {
			b.ReportMetric(float64(median(took[i]))/float64(plain), c.name+"/grpc")
		}
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func BenchmarkContainerStatus(b *testing.B) {
	s := runtimetest.StartUnix(b, runtimetest.Config{Images: []runtimetest.Image{{Name: "web"}}})
	id := fill(b, s.Client(b), 1)
	compare(b, s, clients(b, s), func(c client) error { return c.status(b.Context(), id) })
}

func BenchmarkListContainersOf500Pods(b *testing.B) {
	const pods = 500
	s := runtimetest.StartUnix(b, runtimetest.Config{Images: []runtimetest.Image{{Name: "web"}}})
	fill(b, s.Client(b), pods)
	compare(b, s, clients(b, s), func(c client) error {
		n, err := c.list(b.Context())
		if err == nil && n != 3*pods {
			err = fmt.Errorf("list has %d containers, want %d", n, 3*pods)
		}
		return err
	})
}

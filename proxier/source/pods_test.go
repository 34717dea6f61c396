package source

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func webPod(name string, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web", "x": "y"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.244.0.1",
			PodIPs:     []corev1.PodIP{{IP: "10.244.0.1"}, {IP: "fd01::1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, e := range edit {
		e(p)
	}
	return p
}

func unready(p *corev1.Pod)  { p.Status.Conditions[0].Status = corev1.ConditionFalse }
func deleting(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Unix(1, 0)) }
func ipv4(ip string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = ip, nil }
}

func webService(edit ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.1", Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "web", Port: 80, TargetPort: intstr.FromString("http")}},
		},
	}
	for _, e := range edit {
		e(svc)
	}
	return svc
}

func TestBuildSlices(t *testing.T) {
	named := func(n int32, protocol corev1.Protocol) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: n, Protocol: protocol}}
		}
	}
	tests := []struct {
		name string
		svc  *corev1.Service
		pods []*corev1.Pod
		want []string
	}{
		{name: "none", svc: webService()},
		{
			name: "both families", svc: webService(), pods: []*corev1.Pod{webPod("a")},
			want: []string{"default/web web=8080/TCP; 10.244.0.1 ready serving", "default/web web=8080/TCP; fd01::1 ready serving"},
		},
		{
			name: "conditions", svc: webService(),
			pods: []*corev1.Pod{
				webPod("a", ipv4("10.244.0.1"), unready), webPod("b", ipv4("10.244.0.2"), deleting),
				webPod("c", ipv4("10.244.0.3"), deleting, unready),
			},
			want: []string{"default/web web=8080/TCP; 10.244.0.1; 10.244.0.2 serving terminating; 10.244.0.3 terminating"},
		},
		{
			name: "publishNotReadyAddresses", svc: webService(func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }),
			pods: []*corev1.Pod{webPod("a", ipv4("10.244.0.1"), unready), webPod("b", ipv4("10.244.0.2"), deleting, unready)},
			want: []string{"default/web web=8080/TCP; 10.244.0.1 ready; 10.244.0.2 ready terminating"},
		},
		{
			name: "not endpoints", svc: webService(),
			pods: []*corev1.Pod{
				webPod("other label", func(p *corev1.Pod) { p.Labels["app"] = "db" }),
				webPod("no label", func(p *corev1.Pod) { p.Labels = nil }),
				webPod("other namespace", func(p *corev1.Pod) { p.Namespace = "x" }),
				webPod("no address", ipv4("")),
				webPod("failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
				webPod("succeeded", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
				webPod("no such port", func(p *corev1.Pod) { p.Spec.Containers = nil }),
				webPod("port of another protocol", named(8080, corev1.ProtocolUDP)),
			},
		},
		{
			name: "a named port means what each pod says", svc: webService(),
			pods: []*corev1.Pod{webPod("a", ipv4("10.244.0.1")), webPod("b", ipv4("10.244.0.2"), named(9090, "")), webPod("c", ipv4("10.244.0.3"))},
			want: []string{
				"default/web web=8080/TCP; 10.244.0.1 ready serving; 10.244.0.3 ready serving",
				"default/web web=9090/TCP; 10.244.0.2 ready serving",
			},
		},
		{
			name: "a port of a sidecar", svc: webService(),
			pods: []*corev1.Pod{webPod("a", ipv4("10.244.0.1"), func(p *corev1.Pod) {
				always := corev1.ContainerRestartPolicyAlways
				p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
				p.Spec.InitContainers[0].RestartPolicy = &always
			})},
			want: []string{"default/web web=8080/TCP; 10.244.0.1 ready serving"},
		},
		{
			name: "no port of an init container", svc: webService(),
			pods: []*corev1.Pod{webPod("a", func(p *corev1.Pod) { p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil })},
		},
		{
			name: "numbers", svc: webService(func(s *corev1.Service) {
				s.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 53, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(5353)}, {Name: "b", Port: 54}}
			}),
			pods: []*corev1.Pod{webPod("a", ipv4("192.0.2.1"), func(p *corev1.Pod) { p.Spec.HostNetwork = true })},
			want: []string{"default/web a=5353/UDP b=54/TCP; 192.0.2.1 ready serving"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var pods []pod
			for _, p := range tt.pods {
				pods = append(pods, newPod(p))
			}
			var got []string
			for _, es := range buildSlices(tt.svc, pods, "node-a") {
				got = append(got, show(es))
				for _, e := range es.Endpoints {
					if *e.NodeName != "node-a" {
						t.Errorf("endpoint is on node %q", *e.NodeName)
					}
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("slices (-want +got):\n%s", diff)
			}
		})
	}
}

// answers is a lister that a test tells what to say.
type answers struct {
	start time.Time

	mu     sync.Mutex // guards what follows
	list   []pod
	err    error
	hang   bool
	closed bool
	asked  []time.Duration // since start
}

func (a *answers) set(change func(*answers)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a)
}

// say makes the pods the answer from now on.
func (a *answers) say(pods ...*corev1.Pod) {
	a.set(func(a *answers) {
		a.err, a.list = nil, nil
		for _, p := range pods {
			a.list = append(a.list, newPod(p))
		}
	})
}

func (a *answers) pods(ctx context.Context) ([]pod, bool, error) {
	a.mu.Lock()
	a.asked = append(a.asked, time.Since(a.start))
	list, err, hang := a.list, a.err, a.hang
	a.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, false, ctx.Err()
	}
	return list, err == nil, err
}

func (a *answers) close() { a.set(func(a *answers) { a.closed = true }) }

// pass lets time go by in a synctest bubble.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of a synctest bubble
}

func startPods(t *testing.T) (*answers, *recorder, *Pods) {
	t.Helper()
	a, r := &answers{start: time.Now()}, newRecorder()
	p := newPods(a, r, PodsConfig{NodeName: "node-a", Interval: time.Second, Timeout: 3 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil || !a.closed {
			t.Errorf("Run() = %v, connection closed %v", err, a.closed)
		}
	})
	go func() { done <- p.Run(ctx) }()
	return a, r, p
}

func TestPodsFollowsTheKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r, p := startPods(t)
		a.say(webPod("a", ipv4("10.244.0.1")))
		const one = "set default/web web=8080/TCP; 10.244.0.1 ready serving"
		p.SetService(webService())
		pass(1500 * time.Millisecond)
		r.expect(t, "set Service default/web 10.96.0.1", one)
		p.Synced()
		r.expect(t, "synced")
		pass(10 * time.Second) // asked ten times, told nothing new
		if got := slices.Compact(r.take()); len(got) != 1 || got[0] != "synced" {
			t.Errorf("the sink got %q although nothing changed", got)
		}

		a.say(webPod("a", ipv4("10.244.0.1")), webPod("b", ipv4("10.244.0.2")))
		pass(time.Second)
		r.expect(t, one+"; 10.244.0.2 ready serving", "synced")
		a.say()
		pass(time.Second)
		if got := r.take(); len(got) != 2 || !strings.HasPrefix(got[0], "delete EndpointSlice default/web-pods-v4-") {
			t.Errorf("the sink got %q, want the slice deleted", got)
		}
	})
}

func TestPodsKeepsEndpointsWhileTheKubeletIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r, p := startPods(t)
		a.set(func(a *answers) { a.err = errors.New("connection refused") })
		p.SetService(webService())
		p.Synced()
		pass(time.Minute)
		r.expect(t, "set Service default/web 10.96.0.1") // and not synced
		want := []time.Duration{0, time.Second, 2 * time.Second}
		a.mu.Lock()
		asked := a.asked[:3]
		a.mu.Unlock()
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("asked at (-want +got):\n%s", diff)
		}
		a.say(webPod("a", ipv4("10.244.0.1")))
		pass(1500 * time.Millisecond)
		if got := slices.Compact(r.take()); !slices.Equal(got, []string{"set default/web web=8080/TCP; 10.244.0.1 ready serving", "synced"}) {
			t.Errorf("the sink got %q", got)
		}
		a.set(func(a *answers) { a.hang = true })
		pass(time.Minute)
		for _, line := range r.take() {
			if line != "synced" {
				t.Errorf("the sink got %q while the kubelet hung", line)
			}
		}
	})
}

// A kubelet that has just started knows its pods before it knows their status.
func TestPodsRemembersStatusOverARestartOfTheKubelet(t *testing.T) {
	r := newRecorder()
	a := &answers{}
	p := newPods(a, r, PodsConfig{Timeout: time.Second})
	p.SetService(webService())
	poll := func(pods ...*corev1.Pod) {
		t.Helper()
		a.say(pods...)
		if err := p.poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	noStatus := func(p *corev1.Pod) { p.Status = corev1.PodStatus{} }
	uid := func(uid types.UID) func(*corev1.Pod) { return func(p *corev1.Pod) { p.UID = uid } }
	poll(webPod("a", ipv4("10.244.0.1"), uid("1")))
	r.take()
	poll(webPod("a", noStatus, uid("1")), webPod("b", noStatus, uid("2")))
	r.expect(t)
	poll(webPod("a", ipv4("10.244.0.1"), unready, uid("1")))
	r.expect(t, "set default/web web=8080/TCP; 10.244.0.1")
	poll(webPod("a", noStatus, uid("3"))) // another pod of that name
	if got := r.take(); len(got) != 1 || !strings.HasPrefix(got[0], "delete EndpointSlice") {
		t.Errorf("the sink got %q, want the slice of the old pod deleted", got)
	}
}

func TestPodsServiceChanges(t *testing.T) {
	r := newRecorder()
	a := &answers{list: []pod{newPod(webPod("a", ipv4("10.244.0.1")))}}
	p := newPods(a, r, PodsConfig{Timeout: time.Second})
	if err := p.poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.SetService(webService())
	r.expect(t, "set Service default/web 10.96.0.1", "set default/web web=8080/TCP; 10.244.0.1 ready serving")
	p.SetService(webService(func(s *corev1.Service) { s.Labels = map[string]string{"new": "label"} }))
	r.expect(t, "set Service default/web 10.96.0.1")
	p.SetService(webService(func(s *corev1.Service) { s.Spec.Selector = nil }))
	if got := r.take(); len(got) != 2 || !strings.HasPrefix(got[0], "delete EndpointSlice default/web-pods-v4-") {
		t.Errorf("without a selector the sink got %q", got)
	}
	p.SetService(webService())
	r.take()
	p.DeleteService(types.NamespacedName{Namespace: "default", Name: "web"})
	if got := r.take(); len(got) != 2 || got[1] != "delete Service default/web" {
		t.Errorf("after the deletion the sink got %q", got)
	}
	p.SetService(webService(func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }))
	r.expect(t, "set Service default/web None")
}

// Who has written EndpointSlices keeps them, beside those of the pods.
func TestPodsPassesEndpointSlicesOn(t *testing.T) {
	r := newRecorder()
	p := newPods(&answers{}, r, PodsConfig{})
	m, err := Decode([]byte(manifestSlice))
	if err != nil {
		t.Fatal(err)
	}
	p.SetEndpointSlice(m.EndpointSlices[0])
	r.expect(t, "set default/db =5432/TCP; 192.0.2.9")
	p.DeleteEndpointSlice(types.NamespacedName{Namespace: "default", Name: "db-1"})
	r.expect(t, "delete EndpointSlice default/db-1")
}

const manifestSlice = `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{port: 5432}]
endpoints: [{addresses: [192.0.2.9]}]
`

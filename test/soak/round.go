package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// stepLimit is how long one step may take: a rollout, a change of settings until the last
// pod shows it, the end of a namespace. It takes seconds, a change of settings up to a
// minute and a half; the rest is for machines with much else to do.
const stepLimit = 5 * time.Minute

// round is one stretch of churn, in a namespace of its own.
type round struct {
	cluster   *cluster.Cluster
	node      *cluster.Node
	api       kubernetes.Interface
	log       *log
	meter     *meter
	seed      [2]uint64
	namespace string
	until     time.Time // The end of the churn.
}

// run makes the objects, lets them live until the length is over, and removes them. It
// returns when they are gone. What should have worked and did not is told to the log;
// an error ends the soak.
func (r *round) run(ctx context.Context, length time.Duration) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	list, err := r.clients(ctx)
	if err != nil {
		return err
	}
	r.until = time.Now().Add(length)
	var work sync.WaitGroup
	for i, loop := range []func(context.Context, *rand.Rand){r.rollOut, r.churnPods, r.changeSettings, r.rewriteStatic} {
		random := rand.New(rand.NewPCG(r.seed[0], r.seed[1]+uint64(i)))
		work.Go(func() { loop(ctx, random) })
	}
	var clients sync.WaitGroup
	asking, stop := context.WithCancel(ctx)
	defer stop()
	for _, c := range list {
		clients.Go(func() { c.run(asking) })
	}
	work.Wait()
	stop()
	clients.Wait()
	return r.remove(ctx)
}

// prepare makes what lives as long as the round.
func (r *round) prepare(ctx context.Context) error {
	err := ask(ctx, func(ctx context.Context) error {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}
		_, err := r.api.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
		return made(err)
	})
	if err != nil {
		return fmt.Errorf("make namespace: %w", err)
	}
	err = eventually(ctx, "the namespace has an account", func(ctx context.Context) error {
		_, err := r.api.CoreV1().ServiceAccounts(r.namespace).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			_, err = r.api.CoreV1().ConfigMaps(r.namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := r.widen(ctx); err != nil {
		return err
	}
	if err := r.makeSettings(ctx); err != nil {
		return err
	}
	for _, name := range deployments() {
		if err := r.makeDeployment(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range deployments() {
		if err := r.awaitRollout(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// makeDeployment makes a Deployment and its Service.
func (r *round) makeDeployment(ctx context.Context, name string) error {
	return ask(ctx, func(ctx context.Context) error {
		_, err1 := r.api.AppsV1().Deployments(r.namespace).Create(ctx, newDeployment(name), metav1.CreateOptions{})
		_, err2 := r.api.CoreV1().Services(r.namespace).Create(ctx, newService(name, name, corev1.ServiceTypeNodePort), metav1.CreateOptions{})
		return cmp.Or(made(err1), made(err2))
	})
}

// create makes a pod.
func (r *round) create(ctx context.Context, pod *corev1.Pod) error {
	return ask(ctx, func(ctx context.Context) error {
		_, err := r.api.CoreV1().Pods(r.namespace).Create(ctx, pod, metav1.CreateOptions{})
		return made(err)
	})
}

// clients are those of each Service: on the node, which reach its virtual address, and
// outside of it, which reach its port on the node. A Service can be used when kube-proxy
// has heard of it; from then on no request may fail.
func (r *round) clients(ctx context.Context) ([]*client, error) {
	var all []*client
	for _, name := range deployments() {
		var service *corev1.Service
		err := ask(ctx, func(ctx context.Context) (err error) {
			service, err = r.api.CoreV1().Services(r.namespace).Get(ctx, name, metav1.GetOptions{})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("ask for Service: %w", err)
		}
		virtual := net.JoinHostPort(service.Spec.ClusterIP, "80")
		onNode := net.JoinHostPort(r.node.Address().String(), strconv.Itoa(int(service.Spec.Ports[0].NodePort)))
		for _, keepAlive := range []bool{false, true} {
			all = append(all,
				newClient("cluster IP", "http://"+virtual, r.node.Node, keepAlive),
				newClient("node port", "http://"+onNode, r.cluster.Plane(), keepAlive))
		}
	}
	for _, c := range all {
		c.log = r.log
		err := testnode.Eventually(ctx, stepLimit, c.url+" answers", func(ctx context.Context) error {
			_, err := get(ctx, c.http, c.url)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// remove ends everything and waits until the API server knows nothing of it.
func (r *round) remove(ctx context.Context) error {
	namespaces := r.api.CoreV1().Namespaces()
	err := ask(ctx, func(ctx context.Context) error {
		return gone(namespaces.Delete(ctx, r.namespace, metav1.DeleteOptions{}))
	})
	if err != nil {
		return fmt.Errorf("remove namespace: %w", err)
	}
	return eventually(ctx, "the namespace is gone", func(ctx context.Context) error {
		_, err := namespaces.Get(ctx, r.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = errors.New("it is still there")
		}
		return err
	})
}

// goesOn waits for the next step, and reports whether there is one. With enough steps there
// is none after the end of the churn.
func (r *round) goesOn(ctx context.Context, enough bool, d time.Duration) bool {
	if enough && time.Now().Add(d).After(r.until) {
		return false
	}
	return pause(ctx, d)
}

// step does one thing, of which an error is told, and reports whether it worked.
func (r *round) step(ctx context.Context, do func(context.Context) error) bool {
	limited, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	err := do(limited)
	if err != nil && ctx.Err() == nil {
		r.log.fail(err)
	}
	return err == nil
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// between is a span of time from least to twice that.
func between(random *rand.Rand, least time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(least)))
}

// podURL is where a pod answers, with a path and maybe a query.
func podURL(pod *corev1.Pod, query string) string {
	return "http://" + path.Join(net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port)), query)
}

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// Work is a kind of thing that is done to the node.
type Work string

// What is done. A soak in which one of them never happened shows nothing of it.
const (
	PodsPlain       Work = "pods with volumes"
	PodsCrashing    Work = "pods that crash"
	PodsFlapping    Work = "pods whose probes flap"
	PodsEnding      Work = "pods that end by themselves"
	PodsDeleted     Work = "pods deleted"
	PodsForced      Work = "pods deleted without grace"
	ServicesMade    Work = "Services made and removed"
	Rollouts        Work = "rollouts"
	SettingsChanged Work = "changes of settings"
	StaticChanged   Work = "changes of a static pod"
)

// works are all kinds of work, in the order in which they are told.
func works() []Work {
	return []Work{
		PodsPlain, PodsCrashing, PodsFlapping, PodsEnding, PodsDeleted, PodsForced,
		ServicesMade, Rollouts, SettingsChanged, StaticChanged,
	}
}

const (
	// maxPods is how many pods that come and go there are at most.
	maxPods = 8
	// churnPause is the least time between two steps of the churn. It bounds the load: a
	// pod costs the machine about half a second of one core's time.
	churnPause = 4 * time.Second
	// rolloutPause is that between two rollouts.
	rolloutPause = 10 * time.Second
	// settingsPause is that between two changes of the settings.
	settingsPause = 5 * time.Second
	// staticPause is that between two changes of the static pod.
	staticPause = 10 * time.Second
)

// steps are what the churn does in turn: each kind comes even in a short time, and there
// are two pods more each time, until there are enough. A round does all of them, however
// short it is.
func steps() []Work {
	return []Work{PodsPlain, PodsCrashing, PodsDeleted, PodsFlapping, PodsEnding, PodsForced}
}

// churnPods makes pods of all kinds, and a Service for some of them, and deletes them.
func (r *round) churnPods(ctx context.Context, random *rand.Rand) {
	var living []string
	end := func(how Work) {
		victim := random.IntN(len(living))
		r.step(ctx, r.deletePod(living[victim], how))
		living = slices.Delete(living, victim, victim+1)
	}
	for i := 0; r.goesOn(ctx, i >= len(steps()), between(random, churnPause)); i++ {
		next := steps()[i%len(steps())]
		switch {
		case next == PodsDeleted || next == PodsForced:
			if len(living) > 0 {
				end(next)
			}
			continue
		case len(living) == maxPods:
			end(PodsDeleted)
		}
		name := fmt.Sprintf("churn-%d", i)
		if r.step(ctx, r.makePod(name, next)) {
			living = append(living, name)
		}
		if next == PodsPlain {
			r.step(ctx, r.replaceService(next))
		}
	}
}

// makePod makes a pod of a kind.
func (r *round) makePod(name string, kind Work) func(context.Context) error {
	return func(ctx context.Context) error {
		r.log.did(kind)
		return r.create(ctx, churnPod(kind, name))
	}
}

// deletePod deletes a pod, with its grace or without.
func (r *round) deletePod(name string, how Work) func(context.Context) error {
	return func(ctx context.Context) error {
		var options metav1.DeleteOptions
		if how == PodsForced {
			options.GracePeriodSeconds = new(int64(0))
		}
		r.log.did(how)
		return ask(ctx, func(ctx context.Context) error {
			return gone(r.api.CoreV1().Pods(r.namespace).Delete(ctx, name, options))
		})
	}
}

// replaceService removes the Service of a kind of pods, if there is one, and makes it anew,
// with another address.
func (r *round) replaceService(kind Work) func(context.Context) error {
	const name = "passing"
	return func(ctx context.Context) error {
		services := r.api.CoreV1().Services(r.namespace)
		err := ask(ctx, func(ctx context.Context) error {
			return gone(services.Delete(ctx, name, metav1.DeleteOptions{}))
		})
		if err != nil {
			return err
		}
		service := newService(name, "", corev1.ServiceTypeNodePort)
		service.Labels, service.Spec.Selector = nil, map[string]string{labelApp: appOf(kind)}
		r.log.did(ServicesMade)
		return ask(ctx, func(ctx context.Context) error {
			_, err := services.Create(ctx, service, metav1.CreateOptions{})
			return made(err)
		})
	}
}

// appOf is the label of a kind of pods.
func appOf(kind Work) string { return strings.ReplaceAll(string(kind), " ", "-") }

// deployments are the names of the Deployments and of their Services.
func deployments() []string { return []string{"first", "second"} }

// rollOut replaces the pods of the Deployments in turn.
func (r *round) rollOut(ctx context.Context, random *rand.Rand) {
	for i := 0; r.goesOn(ctx, i >= len(deployments()), between(random, rolloutPause)); i++ {
		name := deployments()[i%len(deployments())]
		r.step(ctx, func(ctx context.Context) error {
			r.log.did(Rollouts)
			patch := fmt.Sprintf(`{"spec": {"template": {"metadata": {"annotations": {"rollout": "%d"}}}}}`, i)
			err := ask(ctx, func(ctx context.Context) error {
				_, err := r.api.AppsV1().Deployments(r.namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				return err
			})
			if err != nil {
				return fmt.Errorf("roll out %s: %w", name, err)
			}
			return r.awaitRollout(ctx, name)
		})
	}
}

// awaitRollout waits until all pods of a Deployment are new and available.
func (r *round) awaitRollout(ctx context.Context, name string) error {
	return eventually(ctx, "Deployment "+name+" is rolled out", func(ctx context.Context) error {
		d, err := r.api.AppsV1().Deployments(r.namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && !rolledOut(d) {
			err = fmt.Errorf("its status is %+v", d.Status)
		}
		return err
	})
}

func rolledOut(d *appsv1.Deployment) bool {
	want, s := *d.Spec.Replicas, d.Status
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
}

// rewriteStatic writes, changes and removes the manifest of a static pod, and waits each
// time until the API server shows it.
func (r *round) rewriteStatic(ctx context.Context, random *rand.Rand) {
	file := filepath.Join(r.node.Manifests(), "static.json")
	for i := 1; r.goesOn(ctx, i > 2, between(random, staticPause)); i++ {
		r.step(ctx, func(ctx context.Context) error {
			r.log.did(StaticChanged)
			if i%3 == 0 {
				return r.removeStatic(ctx, file)
			}
			if err := writeWhole(file, staticPod(i)); err != nil {
				return err
			}
			return r.awaitStatic(ctx, fmt.Sprint(i))
		})
	}
	r.step(ctx, func(ctx context.Context) error { return r.removeStatic(ctx, file) })
}

// writeWhole writes a file so that nobody sees a part of it.
func writeWhole(file, text string) error {
	hidden := filepath.Join(filepath.Dir(file), "."+filepath.Base(file))
	if err := os.WriteFile(hidden, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return os.Rename(hidden, file)
}

func (r *round) removeStatic(ctx context.Context, file string) error {
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove manifest: %w", err)
	}
	return eventually(ctx, "the static pod is gone", func(ctx context.Context) error {
		_, err := r.staticPod(ctx)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			err = fmt.Errorf("the API server shows it")
		}
		return err
	})
}

func (r *round) staticPod(ctx context.Context) (*corev1.Pod, error) {
	return r.api.CoreV1().Pods("default").Get(ctx, "static-"+r.node.NodeName(), metav1.GetOptions{})
}

func (r *round) awaitStatic(ctx context.Context, version string) error {
	return eventually(ctx, "version "+version+" of the static pod runs", func(ctx context.Context) error {
		pod, err := r.staticPod(ctx)
		if err != nil {
			return err
		}
		if env := pod.Spec.Containers[0].Env; len(env) == 0 || env[0].Value != version || pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s, with %v", pod.Status.Phase, env)
		}
		return err
	})
}

// askPeriod is the pause between two looks at what has to come: often enough, for what it
// costs the API server.
const askPeriod = time.Second

// eventually is [testnode.Eventually] that does not ask in vain as often.
func eventually(ctx context.Context, what string, check func(context.Context) error) error {
	return testnode.Eventually(ctx, stepLimit, what, func(ctx context.Context) error {
		err := check(ctx)
		if err != nil {
			pause(ctx, askPeriod)
		}
		return err
	})
}

package replay_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/test/story"
)

// liveOne lives one story.
func (s *stage) liveOne(ctx context.Context, tl *tale) error {
	if _, err := s.pods.Create(ctx, tl.pod(s.node.NodeName()), metav1.CreateOptions{}); err != nil {
		return err
	}
	began := time.Now()
	for _, step := range tl.Steps {
		if err := until(ctx, began.Add(step.At)); err != nil {
			return err
		}
		tl.rec.Happens(story.Outside, 0, step.String())
		if err := s.do(ctx, tl.Pod.Name, step); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	if err := until(ctx, began.Add(tl.Until+15*time.Second)); err != nil {
		return err
	}
	err := s.pods.Delete(ctx, tl.Pod.Name, *metav1.NewDeleteOptions(0)) // make room
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// pod is the pod of the story as the API server takes it.
func (tl *tale) pod(nodeName string) *corev1.Pod {
	pod := tl.Pod.DeepCopy()
	pod.Spec.NodeName = nodeName
	pod.Spec.AutomountServiceAccountToken = new(false)
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, p := range tl.Probes {
				if p.Container == list[i].Name {
					script(probeOf(&list[i], p.Kind), p.Kind)
				}
			}
		}
	}
	return pod
}

// do lets something happen.
func (s *stage) do(ctx context.Context, pod string, step story.Step) error {
	switch step.Verb {
	case "restart", "reboot":
		err := s.node.Kubelet().Kill()
		if step.Verb == "reboot" {
			err = errors.Join(err, s.killSandboxes(ctx, pod))
		}
		return errors.Join(err, s.node.Kubelet().Start(ctx))
	case "kill":
		return s.killSandboxes(ctx, pod)
	case "lose":
		return s.lose(ctx, pod, step.Args[0])
	case "end":
		_ = s.server.Exit("default/"+pod, step.Args[0], runtimetest.Exit{}) // it may have ended
		return nil
	case "delete":
		var options metav1.DeleteOptions
		if len(step.Args) > 0 {
			grace, err := time.ParseDuration(step.Args[0])
			if err != nil {
				return err
			}
			options.GracePeriodSeconds = new(int64(grace.Seconds()))
		}
		return s.pods.Delete(ctx, pod, options)
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { return s.change(ctx, pod, step) })
}

// change changes the pod at the API server.
func (s *stage) change(ctx context.Context, name string, step story.Step) error {
	pod, err := s.pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	switch step.Verb {
	case "image":
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if list[i].Name == step.Args[0] {
					list[i].Image = step.Args[1]
				}
			}
		}
	case "deadline":
		d, err := time.ParseDuration(step.Args[0])
		if err != nil {
			return err
		}
		pod.Spec.ActiveDeadlineSeconds = new(int64(d.Seconds()))
	case "debug":
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: step.Args[0], Image: story.Image},
		})
		_, err := s.pods.UpdateEphemeralContainers(ctx, name, pod, metav1.UpdateOptions{})
		return err
	default:
		return errors.New("this step is not known")
	}
	_, err = s.pods.Update(ctx, pod, metav1.UpdateOptions{})
	return err
}

func (s *stage) killSandboxes(ctx context.Context, pod string) error {
	list, err := s.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	var errs []error
	for _, sb := range list.GetItems() {
		if sb.GetMetadata().GetName() == pod {
			_, err := s.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sb.GetId()})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lose removes the runs of a container behind the back of the kubelet.
func (s *stage) lose(ctx context.Context, pod, container string) error {
	list, err := s.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.name": pod, "io.kubernetes.container.name": container},
	}})
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range list.GetContainers() {
		_, err := s.runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: c.GetId()})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func until(ctx context.Context, at time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(at)):
		return nil
	}
}

// watchPods tells the recorders of the statuses that the API server has.
func (s *stage) watchPods(ctx context.Context) {
	byName := map[string]*tale{}
	for _, tl := range s.tales {
		byName[tl.Pod.Name] = tl
	}
	for ctx.Err() == nil {
		changes, err := s.pods.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			_ = until(ctx, time.Now().Add(time.Second))
			continue
		}
		for e := range changes.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok || pod.Status.Phase == "" {
				continue
			}
			if tl := byName[pod.Name]; tl != nil {
				tl.rec.Happens("pod", 0, statusText(&pod.Status))
			}
		}
		changes.Stop()
	}
}

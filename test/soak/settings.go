package soak

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// readers is how many pods tell of the settings that they see.
const readers = 2

func readerName(i int) string { return fmt.Sprintf("reader-%d", i) }

// changeSettings changes the ConfigMap and the Secret, and waits each time until all readers
// see it in all volumes.
func (r *round) changeSettings(ctx context.Context, random *rand.Rand) {
	client := &http.Client{Timeout: requestLimit, Transport: &http.Transport{DialContext: patiently(r.node.Node), DisableKeepAlives: true}}
	for version := 1; r.goesOn(ctx, version > 1, between(random, settingsPause)); version++ {
		r.step(ctx, func(ctx context.Context) error {
			r.log.did(SettingsChanged)
			if err := r.setSettings(ctx, version); err != nil {
				return err
			}
			for i := range readers {
				if err := r.awaitSettings(ctx, client, readerName(i), fmt.Sprint(version)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// makeSettings makes the ConfigMap, the Secret and their readers.
func (r *round) makeSettings(ctx context.Context) error {
	data := map[string]string{"version": "0"}
	err := ask(ctx, func(ctx context.Context) error {
		_, err1 := r.api.CoreV1().ConfigMaps(r.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta(settings, settings), Data: data}, metav1.CreateOptions{})
		_, err2 := r.api.CoreV1().Secrets(r.namespace).Create(ctx, &corev1.Secret{ObjectMeta: meta(settings, settings), StringData: data}, metav1.CreateOptions{})
		return cmp.Or(made(err1), made(err2))
	})
	for i := range readers {
		if err == nil {
			err = r.create(ctx, withVolumes(newPod(readerName(i), "reader", container("main"))))
		}
	}
	if err != nil {
		return fmt.Errorf("make settings: %w", err)
	}
	return nil
}

func (r *round) setSettings(ctx context.Context, version int) error {
	config := fmt.Sprintf(`{"data": {"version": "%d"}}`, version)
	secret := fmt.Sprintf(`{"stringData": {"version": "%d"}}`, version)
	err := ask(ctx, func(ctx context.Context) error {
		_, err1 := r.api.CoreV1().ConfigMaps(r.namespace).Patch(ctx, settings, types.MergePatchType, []byte(config), metav1.PatchOptions{})
		_, err2 := r.api.CoreV1().Secrets(r.namespace).Patch(ctx, settings, types.MergePatchType, []byte(secret), metav1.PatchOptions{})
		return cmp.Or(err1, err2)
	})
	if err != nil {
		return fmt.Errorf("change settings: %w", err)
	}
	return nil
}

// awaitSettings waits until a reader sees a version in all volumes.
func (r *round) awaitSettings(ctx context.Context, client *http.Client, name, version string) error {
	return eventually(ctx, "pod "+name+" sees version "+version+" of the settings", func(ctx context.Context) error {
		pod, err := r.api.CoreV1().Pods(r.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
			return fmt.Errorf("the pod is %s", pod.Status.Phase)
		}
		for _, folder := range settingsFolders() {
			seen, err := get(ctx, client, podURL(pod, "file")+"?path="+url.QueryEscape(folder+"/version"))
			if err == nil && strings.TrimSpace(string(seen)) != version {
				err = fmt.Errorf("it sees %q in %s", seen, folder)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

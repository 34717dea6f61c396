package images

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/runtime/images/registryauth"
)

// keys are the credentials that a pod has for an image.
type keys struct {
	// all are in the order in which to try them.
	all []registryauth.Credential
	// missing are the names of pull secrets that could not be had or read.
	missing []string
	// err is about all that could not be had.
	err error
}

// errNoSecrets is why pull secrets are missing.
var errNoSecrets = errors.New("this agent was given no access to secrets")

// credentials looks up the credentials for the image once.
func (j *job) credentials(ctx context.Context) *keys {
	if j.keys != nil {
		return j.keys
	}
	k := &keys{}
	repository := j.ref.Repository()
	// One keyring for all of them: the most specific path comes first, not the first secret.
	secrets := &registryauth.Keyring{}
	for _, s := range j.Pod.Spec.ImagePullSecrets {
		secrets.Join(k.readSecret(ctx, &j.cfg.Credentials, j.Pod.Namespace, s.Name))
	}
	k.add(secrets.Lookup(repository), nil)
	files, err := j.cfg.Credentials.Files.Keyring()
	k.add(files.Lookup(repository), err)
	k.add(j.cfg.Credentials.Providers.Lookup(ctx, repository, registryauth.Pod{
		Namespace: j.Pod.Namespace, Name: j.Pod.Name, UID: j.Pod.UID, ServiceAccount: j.Pod.Spec.ServiceAccountName,
	}))
	k.all = registryauth.Unique(k.all)
	if k.err != nil && ended(ctx) == nil {
		j.log.Warn("not all credentials for an image could be had", "image", j.Image, "pod", j.podName(), "uid", j.Pod.UID, "err", k.err)
	}
	j.keys = k
	return k
}

func (k *keys) add(found []registryauth.Credential, err error) {
	k.all = append(k.all, found...)
	k.err = errors.Join(k.err, err)
}

// readSecret returns what a pull secret has, nil if it cannot be had.
func (k *keys) readSecret(ctx context.Context, from *Credentials, namespace, name string) *registryauth.Keyring {
	if name == "" {
		return nil // the API allows an empty reference, which names nothing
	}
	err := errNoSecrets
	var secret *corev1.Secret
	if from.Secret != nil {
		secret, err = from.Secret(ctx, namespace, name)
	}
	if err != nil {
		k.missing = append(k.missing, name)
		k.add(nil, fmt.Errorf("image pull secret %s/%s: %w", namespace, name, err))
		return nil
	}
	keyring, err := registryauth.FromSecrets([]*corev1.Secret{secret})
	if err != nil {
		k.missing = append(k.missing, name)
	}
	k.add(nil, err)
	return keyring
}

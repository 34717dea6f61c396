//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// findings are what a volume is to show.
type findings struct {
	files     payload
	fixed     bool      // an immutable object: it stays so
	refreshAt time.Time // when some of it has to be asked for again; zero: never
	err       error
}

// finder collects the files of one volume.
type finder struct {
	m         *Manager
	pod       *corev1.Pod
	rules     rules
	files     payload
	refreshAt time.Time
}

var errNoSource = errors.New("this agent has no source of it")

// configMap adds the files of a ConfigMap and reports whether it is immutable.
func (f *finder) configMap(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool) (immutable bool, err error) {
	k := keyed{object: Object{ConfigMaps, f.pod.Namespace, name}}
	if f.m.cfg.Objects == nil {
		return false, fmt.Errorf("configmap %q: %w", name, errNoSource)
	}
	object, err := f.m.cfg.Objects.ConfigMap(ctx, f.pod, name)
	switch {
	case err == nil:
		k.data = configMapData(object)
		immutable = isTrue(object.Immutable)
	case !isTrue(optional) || !apierrors.IsNotFound(err):
		return false, found(k.object, err)
	}
	return immutable, f.keyed(&k, items, optional)
}

// secret is configMap for a Secret.
func (f *finder) secret(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool) (immutable bool, err error) {
	k := keyed{object: Object{Secrets, f.pod.Namespace, name}}
	if f.m.cfg.Objects == nil {
		return false, fmt.Errorf("secret %q: %w", name, errNoSource)
	}
	object, err := f.m.cfg.Objects.Secret(ctx, f.pod, name)
	switch {
	case err == nil:
		k.data = object.Data
		immutable = isTrue(object.Immutable)
	case !isTrue(optional) || !apierrors.IsNotFound(err):
		return false, found(k.object, err)
	}
	return immutable, f.keyed(&k, items, optional)
}

func (f *finder) keyed(k *keyed, items []corev1.KeyToPath, optional *bool) error {
	files, err := k.files(items, isTrue(optional), &f.rules)
	maps.Copy(f.files, files)
	return err
}

// found says in the kubelet's words that an object does not exist, or what else is wrong.
func found(o Object, err error) error {
	if apierrors.IsNotFound(err) {
		return &missingError{text: fmt.Sprintf("%s %q not found", o.Kind, o.Name), err: err}
	}
	return fmt.Errorf("get %s %q: %w", o.Kind, o.Name, err)
}

// missingError says that an object does not exist, and why that is known.
type missingError struct {
	text string
	err  error
}

func (e *missingError) Error() string { return e.text }
func (e *missingError) Unwrap() error { return e.err }

func (f *finder) downward(items []corev1.DownwardAPIVolumeFile) error {
	files, err := podFiles(f.pod, items, &f.rules, *f.m.allocatable.Load())
	maps.Copy(f.files, files)
	return err
}

// token adds the file of a token. It is for the user of the file if one is known: the one
// that the volume names, or that of all containers.
func (f *finder) token(ctx context.Context, source *corev1.ServiceAccountTokenProjection) error {
	if f.m.cfg.Tokens == nil {
		return fmt.Errorf("token of the service account: %w", errNoSource)
	}
	token, refreshAt, err := f.m.cfg.Tokens.Token(ctx, f.pod, source)
	if err != nil {
		return fmt.Errorf("token of service account %s/%s: %w", f.pod.Namespace, f.pod.Spec.ServiceAccountName, err)
	}
	if !refreshAt.IsZero() && (f.refreshAt.IsZero() || refreshAt.Before(f.refreshAt)) {
		f.refreshAt = refreshAt
	}
	f.files[source.Path] = f.rules.private(token, f.user(source.User))
	return nil
}

// user returns who is to own a private file, nil if that is not known.
func (f *finder) user(own *int64) *int64 {
	switch {
	case own != nil:
		return own
	case f.rules.user != nil:
		return f.rules.user
	}
	return onlyUser(f.pod)
}

func (f *finder) trustBundle(ctx context.Context, source *corev1.ClusterTrustBundleProjection) error {
	what := "selected by signer"
	switch {
	case source.Name != nil:
		what = *source.Name
	case source.SignerName == nil:
		return errors.New("ClusterTrustBundle projection requires either name or signerName to be set")
	}
	if f.m.cfg.Bundles == nil {
		return fmt.Errorf("clustertrustbundle %s: %w", what, errNoSource)
	}
	texts, err := f.m.cfg.Bundles.TrustBundles(ctx, source)
	switch optional := isTrue(source.Optional); {
	case err != nil && (!optional || !apierrors.IsNotFound(err)):
		return found(Object{Kind: TrustBundles, Name: what}, err)
	case err == nil && len(texts) == 0 && !optional:
		return errors.New("combination of signerName and labelSelector matched zero ClusterTrustBundles")
	}
	anchors, err := trustAnchors(texts, f.m.seed)
	if err != nil {
		return fmt.Errorf("clustertrustbundle %s: %w", what, err)
	}
	f.files[source.Path] = f.rules.private(anchors, f.user(source.User))
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }

package images

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/images/pullrecord"
	"github.com/nodekit-go/nodekit/runtime/images/reference"
	"github.com/nodekit-go/nodekit/runtime/images/registryauth"
)

// job is one request at work. It belongs to one goroutine.
type job struct {
	*Manager
	Request
	ref  reference.Reference
	spec *runtimeapi.ImageSpec
	// keys are the credentials of the pod once they were looked up.
	keys *keys
}

func (j *job) ensure(ctx context.Context) (*runtimeapi.Image, *Error) {
	if failure := j.parse(); failure != nil {
		return nil, failure
	}
	asked := Asked{Policy: j.Policy, MustPull: true}
	if j.Policy != corev1.PullAlways {
		found, failure := j.inspect(ctx, j.spec.GetImage())
		if failure != nil {
			return nil, failure
		}
		asked.Looked, asked.Present = true, found != nil
		if found != nil && j.mayUse(ctx, found.GetId()) {
			asked.MustPull = false
			j.tell(asked)
			j.normal("Pulled", j.presentMessage())
			return found, nil
		}
	}
	j.tell(asked)
	if j.Policy == corev1.PullNever {
		err := fmt.Errorf("Container image %q is not present with pull policy of Never", j.Image) //nolint:staticcheck // the text of the status
		j.warning(string(NeverPull), err.Error())
		return nil, &Error{Reason: NeverPull, Err: err, message: err.Error()}
	}
	if failure := j.backoff(); failure != nil {
		return nil, failure
	}
	return j.pull(ctx)
}

// parse reads the name of the image and completes the request.
func (j *job) parse() *Error {
	ref, err := reference.Parse(j.Image)
	if err != nil {
		text := fmt.Sprintf("Failed to apply default image tag %q: %v", j.Image, err)
		j.warning("InspectFailed", text)
		return &Error{Reason: InvalidName, Err: err, message: text}
	}
	j.ref = ref
	j.spec = &runtimeapi.ImageSpec{Image: ref.Tagged(), UserSpecifiedImage: j.Image, Annotations: j.Pod.Annotations}
	switch j.Policy {
	case corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	case "":
		j.Policy = corev1.PullIfNotPresent
		if ref.FloatingTag() {
			j.Policy = corev1.PullAlways
		}
	default:
		err := fmt.Errorf("pull policy %q is none of %s, %s and %s", j.Policy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
		return &Error{Reason: PullFailed, Err: err, message: err.Error()}
	}
	return nil
}

// inspect returns the image if the node has it, nil if not.
func (j *job) inspect(ctx context.Context, name string) (*runtimeapi.Image, *Error) {
	resp, err := j.runtime.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: name, UserSpecifiedImage: j.Image, Annotations: j.Pod.Annotations}, false)
	if err != nil && status.Code(err) != codes.NotFound {
		return nil, j.inspectFailed(ctx, err)
	}
	if resp.GetImage().GetId() == "" {
		return nil, nil
	}
	return resp.GetImage(), nil
}

func (j *job) inspectFailed(ctx context.Context, err error) *Error {
	text := fmt.Sprintf("Failed to inspect image %q: %s", j.Image, words(err))
	if ended(ctx) == nil {
		j.warning("InspectFailed", text)
	}
	return &Error{Reason: InspectFailed, Err: err, message: text}
}

// mayUse reports whether the pod may use an image that is on the node.
func (j *job) mayUse(ctx context.Context, id string) bool {
	if j.cfg.Records == nil {
		return true
	}
	ok, err := j.cfg.Records.Allows(j.Image, id, j.cfg.Verifier, func() (pullrecord.Access, error) {
		return access(j.credentials(ctx).all), ctx.Err()
	})
	if err != nil && ended(ctx) == nil {
		j.log.Warn("record of image pulls is of no use", "image", j.Image, "pod", j.podName(), "uid", j.Pod.UID, "err", err)
	}
	return ok
}

// access is what credentials say about who may use an image.
func access(credentials []registryauth.Credential) pullrecord.Access {
	var a pullrecord.Access
	for _, c := range credentials {
		one := accessOf(&c)
		a.Secrets = append(a.Secrets, one.Secrets...)
		a.ServiceAccounts = append(a.ServiceAccounts, one.ServiceAccounts...)
	}
	return a
}

// accessOf says who may use what was pulled with a credential; nil means that none was
// needed.
func accessOf(c *registryauth.Credential) pullrecord.Access {
	switch {
	case c != nil && c.Source.Secret != nil:
		s := c.Source.Secret
		return pullrecord.Access{Secrets: []pullrecord.Secret{{UID: string(s.UID), Namespace: s.Namespace, Name: s.Name, Hash: c.Hash()}}}
	case c != nil && c.Source.ServiceAccount != nil:
		s := c.Source.ServiceAccount
		return pullrecord.Access{ServiceAccounts: []pullrecord.ServiceAccount{{UID: string(s.UID), Namespace: s.Namespace, Name: s.Name}}}
	default:
		return pullrecord.Access{Everybody: true}
	}
}

// backoff fails while the last failed pull for the pod is too recent.
func (j *job) backoff() *Error {
	left, last := j.backoffs.left(j.key(), time.Now())
	if last == nil {
		return nil
	}
	text := fmt.Sprintf("Back-off pulling image %q", j.Image)
	j.normal("BackOff", text)
	return &Error{Reason: BackOff, Err: last, message: fmt.Sprintf("%s: %s: %s", text, last.Reason, last.message), after: left}
}

func (j *job) key() podImage { return podImage{j.Pod.UID, j.Image} }

// pull pulls the image, or waits for a pull that others asked for.
func (j *job) pull(ctx context.Context) (*runtimeapi.Image, *Error) {
	j.normal("Pulling", fmt.Sprintf("Pulling image %q", j.Image))
	began := time.Now()
	had := j.credentials(ctx)
	result, err := j.recorded(ctx, had.all)
	if ended(ctx) != nil && err != nil {
		return nil, &Error{Reason: PullFailed, Err: err, message: err.Error()}
	}
	if uninspected, ok := errors.AsType[*uninspectedError](err); ok {
		return nil, j.inspectFailed(ctx, uninspected.err)
	}
	if err != nil {
		return nil, j.pullFailed(err, had)
	}
	j.backoffs.succeeded(j.key())
	j.normal("Pulled", fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.",
		j.Image, result.took.Truncate(time.Millisecond), time.Since(began).Truncate(time.Millisecond), result.image.GetSize()))
	return result.image, nil
}

// recorded is a pull between its entries in the records.
func (j *job) recorded(ctx context.Context, credentials []registryauth.Credential) (pulled, error) {
	if j.cfg.Records != nil {
		if err := j.cfg.Records.Begin(j.Image); err != nil {
			return pulled{}, err
		}
	}
	result, err := j.flights.Do(ctx, j.pullKey(credentials), func(ctx context.Context) (pulled, error) {
		return j.pullOnce(ctx, j, credentials)
	})
	if j.cfg.Records == nil {
		return result, err
	}
	uninspected, ok := errors.AsType[*uninspectedError](err)
	var recordErr error
	switch {
	case err == nil:
		recordErr = j.cfg.Records.Done(j.Image, result.image.GetId(), accessOf(result.used(credentials)))
	case ok:
		// The image is there; nobody may use it without another pull.
		recordErr = j.cfg.Records.Done(j.Image, uninspected.ref, pullrecord.Access{})
	case result.unseen:
		recordErr = j.cfg.Records.CutOff(j.Image)
	default:
		recordErr = j.cfg.Records.Abandon(j.Image)
	}
	if recordErr != nil {
		j.log.Error("cannot record an image pull", "image", j.Image, "pod", j.podName(), "uid", j.Pod.UID, "err", recordErr)
	}
	return result, err
}

func (j *job) pullFailed(err error, had *keys) *Error {
	failure := newPullError(j.Image, err)
	if had.err != nil {
		failure.message += "; not all credentials could be had: " + strings.ReplaceAll(had.err.Error(), "\n", "; ")
		failure.Err = errors.Join(failure.Err, had.err)
	}
	failure.after = j.backoffs.failed(j.key(), failure, time.Now())
	if len(had.missing) > 0 {
		j.warning("FailedToRetrieveImagePullSecret", fmt.Sprintf(
			"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(had.missing, ", ")))
	}
	j.warning("Failed", fmt.Sprintf("Failed to pull image %q: %s", j.Image, failure.message))
	return failure
}

func (j *job) presentMessage() string {
	text := fmt.Sprintf("Container image %q already present on machine", j.Image)
	if j.cfg.Records != nil {
		text += " and can be accessed by the pod"
	}
	return text
}

func (j *job) podName() string { return j.Pod.Namespace + "/" + j.Pod.Name }

func (j *job) normal(reason, message string)  { j.event(corev1.EventTypeNormal, reason, message) }
func (j *job) warning(reason, message string) { j.event(corev1.EventTypeWarning, reason, message) }

func (j *job) event(kind, reason, message string) {
	if j.cfg.Hooks.Event != nil {
		j.cfg.Hooks.Event(j.Pod, Event{Type: kind, Reason: reason, Message: message, Container: j.Container})
	}
}

func (j *job) tell(a Asked) {
	if j.cfg.Hooks.Asked != nil {
		j.cfg.Hooks.Asked(a)
	}
}

package soak

import (
	"context"
	"errors"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ask has the API server asked, and again while it has no time to answer: that is no fault
// of the node. What is asked must be the same when it is done twice; see [made] and [gone].
func ask(ctx context.Context, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if !busy(err) || !pause(ctx, askPeriod) {
			return err
		}
	}
}

// busy reports whether an error says that the API server had no time.
func busy(err error) bool {
	var late net.Error
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || errors.As(err, &late) && late.Timeout()
}

// made is the error of making an object that may have been made before the answer was lost.
func made(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// gone is the error of removing an object that may have been removed before.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

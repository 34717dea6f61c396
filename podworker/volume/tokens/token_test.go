package tokens

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestElapsed trusts the clock that says more.
func TestElapsed(t *testing.T) {
	now := time.Now()
	wall := now.Round(0) // without the monotonic clock
	tests := []struct {
		name     string
		from, to time.Time
		want     time.Duration
	}{
		{"both clocks went on", now, now.Add(time.Hour), time.Hour},
		{"only the wall clock is known", wall, wall.Add(time.Hour), time.Hour},
		{"no time", now, now, 0},
	}
	for _, tt := range tests {
		if got := elapsed(tt.from, tt.to); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// passes lets time pass in a synctest bubble.
func passes(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of a synctest bubble
}

// granting is a client that grants everything.
type granting struct{}

func (granting) CreateToken(_ context.Context, _ string, r *authenticationv1.TokenRequest, _ metav1.CreateOptions) (*authenticationv1.TokenRequest, error) {
	r.Status.Token = "secret"
	return r, nil
}

// TestExpiredAreDropped holds nothing of pods that nobody forgot.
func TestExpiredAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(func(string) Client { return granting{} }, Config{})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(uid types.UID) {
			t.Helper()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
			pod.Spec.ServiceAccountName = "default"
			pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
			if _, err := c.Get(t.Context(), Request{Pod: pod, Driver: "disk.example", Lifetime: 10 * time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 100 {
			ask(types.UID(fmt.Sprint(i)))
		}
		if n := len(c.entries); n != 100 {
			t.Errorf("%d tokens are held, want 100", n)
		}
		passes(11 * time.Minute)
		ask("last")
		if n := len(c.entries); n != 1 {
			t.Errorf("%d tokens are held, want one", n)
		}
	})
}

package tokens

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

const (
	// A token is renewed when a fifth of its life is left, or when it is maxAge old,
	// and up to maxJitter earlier by chance. These are the kubelet's figures, see
	// https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/.
	maxAge    = 24 * time.Hour
	maxJitter = 10 * time.Second
)

// Token is a service account token. However it is printed, its value stays out.
type Token struct {
	// Expires is when the token ends, by the clock of the server.
	Expires time.Time
	// Refresh is when the Cache will request another one if it is asked. It was in the
	// future when the Cache handed the token out, also where a renewal has failed.
	Refresh time.Time

	value    string
	received time.Time
	life     time.Duration // from received on, so that clocks need not agree
}

// newToken reads the answer of the server to a request for a lifetime.
func newToken(answer *authenticationv1.TokenRequest, asked time.Duration, now time.Time) (Token, error) {
	if answer == nil || answer.Status.Token == "" {
		return Token{}, errors.New("the server answered without a token")
	}
	life := asked
	if s := answer.Spec.ExpirationSeconds; s != nil && *s > 0 {
		life = seconds(*s)
	}
	t := Token{value: answer.Status.Token, Expires: answer.Status.ExpirationTimestamp.Time, received: now, life: life}
	age := min(life-life/5, maxAge)
	// Of a short life the jitter is a small part.
	t.Refresh = now.Add(age - rand.N(min(maxJitter, life/20)+1))
	return t, nil
}

// seconds is a duration of n seconds, or the longest there is.
func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(min(n, most)) * time.Second
}

// Value is the token itself. Take care where it goes.
func (t Token) Value() string { return t.value }

// String does not tell the value.
func (t Token) String() string {
	if t.value == "" {
		return "no token"
	}
	return fmt.Sprintf("token until %s", t.Expires.UTC().Format(time.RFC3339))
}

// GoString does not tell the value.
func (t Token) GoString() string { return t.String() }

// LogValue does not tell the value.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

func (t Token) valid(now time.Time) bool { return t.value != "" && t.left(now) > 0 }

// left is how long the token can still be used.
func (t Token) left(now time.Time) time.Duration { return t.life - elapsed(t.received, now) }

func (t Token) due(now time.Time) bool {
	return elapsed(t.received, now) >= elapsed(t.received, t.Refresh)
}

// elapsed is the time from one moment to another by the clock that says more: the
// monotonic one stands still while a machine sleeps, the other one can be set back.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

package allocatable

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Threshold is how much of something must be left before pods are evicted: an
// amount, or a share of the capacity. The zero value is no threshold. Thresholds
// are values: they can be copied, and no method changes one.
type Threshold struct {
	text    string
	amount  resource.Quantity
	percent *big.Rat // nil: the amount counts
}

// maxThreshold bounds the text of a threshold. The longest sensible ones, a number
// of bytes or of percent with decimals, are a third of it.
const maxThreshold = 64

// ParseThreshold reads a threshold as a KubeletConfiguration has it: a quantity
// like "100Mi", which must be positive, or a percentage from "0%" to "100%".
// Neither of these two ends is a threshold
// (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction).
func ParseThreshold(s string) (Threshold, error) {
	if len(s) > maxThreshold {
		return Threshold{}, fmt.Errorf("threshold of %d characters: must have at most %d", len(s), maxThreshold)
	}
	if number, ok := strings.CutSuffix(s, "%"); ok {
		percent, err := parsePercent(number)
		if err != nil {
			return Threshold{}, fmt.Errorf("threshold %q: %w", s, err)
		}
		return Threshold{text: s, percent: percent}, nil
	}
	amount, err := parseQuantity(s)
	if err != nil {
		return Threshold{}, fmt.Errorf("threshold %q: %w", s, err)
	}
	if amount.Sign() <= 0 {
		return Threshold{}, fmt.Errorf("threshold %q: must be positive; write 0%% for no threshold", s)
	}
	return Threshold{text: s, amount: amount}, nil
}

// parsePercent takes decimal numbers only, so that what is written is what is
// computed with.
func parsePercent(s string) (*big.Rat, error) {
	if strings.Trim(s, "0123456789.") != "" {
		return nil, errors.New("must be a decimal number before the percent sign, like 12.5%")
	}
	percent, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, errors.New("must be a decimal number before the percent sign, like 12.5%")
	}
	if percent.Cmp(big.NewRat(100, 1)) > 0 {
		return nil, errors.New("must not be more than 100%")
	}
	return percent, nil
}

// parseQuantity refuses exponents beyond those of any machine first: the parser
// would write out all their zeros.
func parseQuantity(s string) (resource.Quantity, error) {
	if i := strings.LastIndexAny(s, "eE"); i >= 0 {
		if exponent, err := strconv.Atoi(s[i+1:]); err == nil && (exponent > 18 || exponent < -18) {
			return resource.Quantity{}, fmt.Errorf("exponent %d: must be between -18 and 18", exponent)
		}
	}
	return resource.ParseQuantity(s)
}

// None reports whether nothing needs to be left.
func (t Threshold) None() bool {
	if t.percent == nil {
		return t.amount.IsZero()
	}
	return t.percent.Sign() == 0 || t.percent.Cmp(big.NewRat(100, 1)) == 0
}

// Of returns the amount for a capacity: a share of it rounded down to a whole
// unit, or the amount of the threshold whatever the capacity.
func (t Threshold) Of(capacity resource.Quantity) resource.Quantity {
	if t.None() || t.percent != nil && capacity.Sign() <= 0 {
		return resource.Quantity{Format: resource.BinarySI}
	}
	if t.percent == nil {
		return t.amount.DeepCopy()
	}
	capacity = capacity.DeepCopy()
	share, ok := new(big.Rat).SetString(capacity.AsDec().String())
	if !ok {
		return resource.Quantity{Format: resource.BinarySI}
	}
	share.Mul(share, t.percent).Quo(share, big.NewRat(100, 1))
	units := new(big.Int).Quo(share.Num(), share.Denom())
	amount := *resource.NewQuantity(0, resource.BinarySI)
	amount.AsDec().SetUnscaledBig(units)
	return amount
}

// String returns the threshold as it was written; "0%" for none that was.
func (t Threshold) String() string {
	if t.text == "" {
		return "0%"
	}
	return t.text
}

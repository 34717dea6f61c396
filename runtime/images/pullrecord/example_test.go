package pullrecord_test

import (
	"fmt"
	"os"

	"github.com/nodekit-go/nodekit/runtime/images/pullrecord"
)

// One pod's secret brings a private image; another pod cannot use it without another
// pull.
func ExampleStore() {
	dir, err := os.MkdirTemp("", "image_manager")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := pullrecord.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	const image, id = "registry.example/web:1", "sha256:0123"
	shop := pullrecord.Access{Secrets: []pullrecord.Secret{{UID: "1", Namespace: "shop", Name: "pull", Hash: "ab"}}}

	if err := store.Begin(image); err != nil {
		fmt.Println(err)
	}
	// … the pull …
	if err := store.Done(image, id, shop); err != nil {
		fmt.Println(err)
	}
	for _, pod := range []pullrecord.Access{shop, {}} {
		ok, err := store.Allows(image, id, pullrecord.Verifier{}, func() (pullrecord.Access, error) { return pod, nil })
		fmt.Println(ok, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

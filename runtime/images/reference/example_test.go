package reference_test

import (
	"fmt"

	"github.com/nodekit-go/nodekit/runtime/images/reference"
)

func Example() {
	ref, err := reference.Parse("team/web")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ref.Repository(), ref.Tag)
	fmt.Println(ref)

	_, err = reference.Parse("Team/web:")
	fmt.Println(err)
	// Output:
	// docker.io/team/web latest
	// docker.io/team/web:latest
	// parse image name "Team/web:": invalid reference format: the tag has not 1 to 128 characters
}

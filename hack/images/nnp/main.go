// Command nnp prints the user that it runs as. In its image it belongs to root and has
// the setuid bit: a container that may not gain privileges sees its own user instead.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Printf("Effective uid: %d\n", os.Geteuid())
}

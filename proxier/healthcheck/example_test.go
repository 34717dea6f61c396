package healthcheck_test

import (
	"fmt"
	"net/http/httptest"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/healthcheck"
)

func Example() {
	s, err := healthcheck.New("127.0.0.1:10256", healthcheck.Config{
		Status: func() proxier.Status { return proxier.Status{} },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder() // s.Run(ctx) would serve it at the address
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/livez", nil))
	fmt.Println(w.Code)
	// Output: 200
}

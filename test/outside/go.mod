// This module is outside of nodekit, like a user's. Its test makes more of them.
module example.com/outside

go 1.26.0

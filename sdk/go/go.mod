module github.com/wavehouse/wavehouse/sdk/go

go 1.24

module desk

go 1.25

module render-template

go 1.25

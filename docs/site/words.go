package main

// words are those of the frame around a page.
type words struct {
	Language   string // its own name
	SkipToPage string
	Menu       string
	Pages      string // name of the navigation
	OnThisPage string
	Search     string
	SearchHint string
	Nothing    string
	Before     string
	After      string
	Copy       string
	Copied     string
	Theme      string
	Version    string
	Repository string
	Source     string
	Neighbours string
	Close      string
	Overview   string
	AllPages   string
	Changes    string
}

// languages are the languages of documents.
var languages = map[string]words{
	english: {
		Language:   "English",
		SkipToPage: "Skip to the page",
		Menu:       "Menu",
		Pages:      "Pages",
		OnThisPage: "On this page",
		Search:     "Search",
		SearchHint: "Search the documentation",
		Nothing:    "Nothing found",
		Before:     "Previous",
		After:      "Next",
		Copy:       "Copy",
		Copied:     "Copied",
		Theme:      "Light or dark",
		Version:    "Version",
		Repository: "Repository",
		Source:     "This page in the repository",
		Neighbours: "Previous and next page",
		Close:      "Close",
		Overview:   "Overview",
		AllPages:   "All pages",
		Changes:    "Changelog",
	},
	chinese: {
		Language:   "中文",
		SkipToPage: "跳到正文",
		Menu:       "菜单",
		Pages:      "页面",
		OnThisPage: "本页内容",
		Search:     "搜索",
		SearchHint: "搜索文档",
		Nothing:    "没有找到",
		Before:     "上一页",
		After:      "下一页",
		Copy:       "复制",
		Copied:     "已复制",
		Theme:      "浅色或深色",
		Version:    "版本",
		Repository: "代码仓库",
		Source:     "在代码仓库中查看本页",
		Neighbours: "上一页和下一页",
		Close:      "关闭",
		Overview:   "概览",
		AllPages:   "全部页面",
		Changes:    "变更记录",
	},
}

// A file of its own, so that the page needs no inline script and passes a strict Content-Security-Policy.
window.addEventListener("load", () => {
  const element = document.getElementById("swagger-ui");
  SwaggerUIBundle({ domNode: element, url: element.dataset.openapiUrl, deepLinking: true });
});

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("webhooks_app", "0002_fillfactors")]

    operations = [
        migrations.AddField("Event", "traceparent", models.CharField(editable=False, max_length=55, null=True)),
    ]
